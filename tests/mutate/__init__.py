"""Would the tests notice a wrong program?"""
