"""What the stages run: pinned compilers, where they come from, and which flags they get."""
