# Sourced by ./test --browser: prints the path of a Chromium, after installing Debian's where there is none.

attnforge_chromium() {
    local name
    for name in ${CHROMIUM:+"$CHROMIUM"} chromium chromium-browser google-chrome; do
        if command -v "$name"; then return 0; fi
    done
    echo "attnforge: installing chromium (apt-get, once)" >&2
    local root=()
    if [ "$(id -u)" != 0 ]; then root=(sudo); fi
    "${root[@]}" apt-get install -y --no-install-recommends chromium >&2 || {
        echo "attnforge: chromium could not be installed. Install one, and name it: CHROMIUM=... ./test --browser" >&2
        return 1
    }
    command -v chromium
}
