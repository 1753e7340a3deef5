"""Pinned compilers of the stages, their origin and their flags."""
