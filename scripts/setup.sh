# Sourced by ./run, ./test and .ci/run: makes .venv in the checkout and keeps it in step with pyproject.toml.
#
#     attnforge_setup CHECKOUT LEVEL        LEVEL is run, web, docs, test, dev, browser or bench; each includes those before
#
# .venv/.attnforge-sync holds "FINGERPRINT LEVEL" of the last set-up that finished, so the next call returns at once.
# .venv/.attnforge-unfinished exists while one is under way; finding it means that one was killed, and .venv is remade.

# Installed first and alone: an open range with torch absent lets pip take the newest CUDA build, several GB.
attnforge_torch="torch==2.13.0"

# Some virtual machines announce AMX tiles and kill who uses them; oneDNN's bfloat16 products would. AVX-512 does as well.
export ONEDNN_MAX_CPU_ISA=${ONEDNN_MAX_CPU_ISA:-AVX512_CORE_BF16}

attnforge_setup() {
    local checkout=$1 level=$2 venv=$1/.venv
    local stamp=$venv/.attnforge-sync unfinished=$venv/.attnforge-unfinished log=$venv/setup.log
    local fingerprint
    fingerprint=$(_attnforge_fingerprint)
    _attnforge_in_step && return 0
    # The lock is held on a file descriptor of the subshell, so it ends with it however that ends.
    (
        if command -v flock >/dev/null && ! flock -n 9; then
            _attnforge_say "waiting for another set-up of .venv"
            flock 9 || true
        fi
        _attnforge_in_step || _attnforge_sync
    ) 9<"$checkout/scripts/setup.sh"
}

_attnforge_say() { printf 'attnforge: %s\n' "$*" >&2; }

_attnforge_fail() {
    rm -f "$unfinished" # pip stopped by itself and left .venv consistent: the next attempt continues from here
    if [ -s "$log" ]; then
        _attnforge_say "the last lines of .venv/setup.log:"
        tail -n 30 "$log" >&2
    fi
    _attnforge_say "$@"
    exit 1
}

# The checkout's place counts: scripts in .venv/bin and the editable install hold absolute paths.
_attnforge_fingerprint() {
    { printf '%s\n' "$checkout" && cat "$checkout/pyproject.toml" "$checkout/scripts/setup.sh"; } |
        { sha256sum 2>/dev/null || shasum -a 256; } | cut -d ' ' -f 1
}

_attnforge_rank() {
    case $1 in run) echo 1 ;; web) echo 2 ;; docs) echo 3 ;; test) echo 4 ;; dev) echo 5 ;; browser) echo 6 ;; bench) echo 7 ;; *) echo 0 ;; esac
}

_attnforge_in_step() {
    local done_fingerprint='' done_level=''
    [ -x "$venv/bin/python" ] && [ -f "$stamp" ] && [ ! -e "$unfinished" ] || return 1
    read -r done_fingerprint done_level <"$stamp" || true
    [ "$done_fingerprint" = "$fingerprint" ] &&
        [ "$(_attnforge_rank "$done_level")" -ge "$(_attnforge_rank "$level")" ]
}

# Prints the first Python that is new enough and can make virtual environments; $PYTHON goes first.
_attnforge_find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3 python3.12 python3.13 python; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

_attnforge_make_venv() {
    local python output
    python=$(_attnforge_find_python) || _attnforge_fail "Python 3.11 or newer with the venv module is required." \
        "None of python3.11, python3, python3.12, python3.13, python is one. Install it, or name it: PYTHON=... $0"
    _attnforge_say "setting up .venv (about a minute, once)"
    output=$("$python" -m venv --clear "$venv" 2>&1) ||
        _attnforge_fail "$output" "could not make .venv with $python; see the message above"
}

_attnforge_pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@" >>"$log" 2>&1; }

_attnforge_sync() {
    local old_level='' extras=''
    if [ -x "$venv/bin/python" ] && [ ! -e "$unfinished" ]; then
        _attnforge_say "bringing .venv up to date"
        if [ -f "$stamp" ]; then read -r _ old_level <"$stamp" || true; fi
    else
        _attnforge_make_venv
    fi
    # ./run after a change of pyproject.toml must not forget that the test tools are wanted too.
    if [ "$(_attnforge_rank "$old_level")" -gt "$(_attnforge_rank "$level")" ]; then level=$old_level; fi
    if [ "$level" != run ]; then extras="[$level]"; fi

    : >"$unfinished"
    : >"$log"
    _attnforge_pip --version || "$venv/bin/python" -m ensurepip >>"$log" 2>&1 ||
        _attnforge_fail "there is no pip in .venv and it could not be added. Remove .venv and try again."
    "$venv/bin/python" -c 'import importlib.metadata as m; m.version("torch")' 2>/dev/null ||
        _attnforge_pip install "$attnforge_torch" ||
        _attnforge_fail "$attnforge_torch could not be installed. Check the network and the space on disk and try" \
            "again, or put another torch >= 2.6 into .venv with .venv/bin/python -m pip, which is then kept."
    _attnforge_pip install -e "$checkout$extras" ||
        _attnforge_fail "the dependencies in pyproject.toml could not be installed. Check the network and try again."
    printf '%s %s\n' "$fingerprint" "$level" >"$stamp"
    rm -f "$unfinished"
}
