"""Which Python has the packages that a test needs."""
import os
import sys

SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def need(*names):
    """Goes on in the Python of REHEARSAL_PYTHON; ends the test as skipped when one of the packages is not there."""
    wanted = os.environ.get('REHEARSAL_PYTHON')
    if wanted and os.environ.get('REHEARSAL_PYTHON_TAKEN') != '1':
        os.environ['REHEARSAL_PYTHON_TAKEN'] = '1'
        os.execv(wanted, [wanted] + sys.argv)
    for name in names:
        try:
            __import__(name)
        except ImportError as error:
            print(f'skipped: {error} ({sys.executable}; REHEARSAL_PYTHON names another Python)')
            sys.exit(SKIPPED)
