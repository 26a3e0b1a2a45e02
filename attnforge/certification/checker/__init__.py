"""The independent checker: is a stored bound true of the stored weights and the stored target?"""
