"""Every code object is executed before it ships: calls that reach it, on the emulator with all checks on, to receipts.

``ready`` what must be there first; ``choose`` which calls launch something unproved; ``workers`` executes them; ``prove`` does it
all and writes what was found; ``recorded`` takes lines that another machine wrote.
"""
