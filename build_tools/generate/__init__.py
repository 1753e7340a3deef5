"""Writers of the generated files of this repository; tests compare them."""
