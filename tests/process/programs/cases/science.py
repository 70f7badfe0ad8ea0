"""NumPy, SciPy, pandas and PyArrow: a part of their own tests, from their wheels in the Python index."""

from harness.case import Case
from harness.outcomes import pytest

WHEELS = ("numpy==2.4.6", "scipy==1.17.1", "pandas==3.1.1", "pyarrow==26.0.1", "pytest==9.2.0", "hypothesis==6.170.15")


class Tested(Case):
    """Runs modules of tests with pytest, one process for each module. Each test is a check."""

    medium = 0
    modules = ""         # relative to `package`; each is a group
    package = ""
    more = ()            # more arguments for pytest
    health = 0.5         # many are skipped: for other systems, slow ones, optional packages

    def prepare(self, kit):
        self.python = kit.venv("science", WHEELS)

    def groups(self, quick):
        return self.modules.split()

    def run(self, side, group):
        work = side.fresh("work")
        done = side.run([self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not network and not single_cpu",
                         "-o", "addopts=", "--hypothesis-seed=7", "--junit-xml", work / "results.xml", *self.more,
                         "--pyargs", f"{self.package}.{group}"],
                        cwd=work, env={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}, timeout=900)
        return {**pytest(work / "results.xml"), "end": done.outcome}


class NumPy(Tested):
    """NumPy: its own tests of arrays, ufuncs, dtypes, random numbers and linear algebra (OpenBLAS with threads)."""

    name = "numpy"
    least = 20000
    package = "numpy"
    modules = """
        _core.tests.test_multiarray _core.tests.test_umath _core.tests.test_ufunc _core.tests.test_numeric _core.tests.test_dtype
        _core.tests.test_einsum _core.tests.test_nditer _core.tests.test_regression _core.tests.test_scalarmath
        _core.tests.test_indexing _core.tests.test_strings _core.tests.test_stringdtype _core.tests.test_records
        _core.tests.test_shape_base _core.tests.test_mem_overlap _core.tests.test_casting_unittests _core.tests.test_half
        _core.tests.test_print _core.tests.test_multithreading lib.tests linalg.tests fft.tests ma.tests polynomial.tests
        random.tests.test_generator_mt19937 random.tests.test_random matrixlib.tests
    """


class SciPy(Tested):
    """SciPy: its own tests of sparse matrices, trees, signals, interpolation, optimisation and linear algebra."""

    name = "scipy"
    least = 10000
    package = "scipy"
    modules = """
        sparse.tests.test_base sparse.tests.test_construct sparse.linalg.tests spatial.tests.test_kdtree
        spatial.tests.test_qhull spatial.tests.test_distance linalg.tests.test_basic linalg.tests.test_decomp interpolate.tests
        cluster.tests fft.tests ndimage.tests.test_filters ndimage.tests.test_measurements io.tests
        special.tests.test_basic integrate.tests.test_quadpack
    """


class Pandas(Tested):
    """pandas: its own tests of frames, series, groups, joins, indexes and files."""

    name = "pandas"
    least = 20000
    package = "pandas.tests"
    modules = """
        frame.methods frame.indexing frame.test_constructors frame.test_reductions groupby.aggregate groupby.transform
        groupby.methods reshape series.methods series.indexing indexes.multi indexes.datetimes io.parser.common io.json
        strings window extension.test_arrow internals copy_view
    """


class PyArrow(Tested):
    """PyArrow: its own tests of arrays, compute functions, files and threads, with buffers from malloc."""

    name = "pyarrow"
    least = 2000
    package = "pyarrow.tests"
    more = ("-k", "not test_batch_lifetime")  # a race between Arrow and its own thread: 21 of 339 fail on glibc too
    modules = """
        test_array test_compute test_table test_types test_scalars test_io test_ipc test_csv test_json test_pandas test_acero
        test_builder test_memory test_convert_builtin parquet.test_basic parquet.test_data_types test_dataset
    """

    def run(self, side, group):
        side.inherited = {**side.inherited, "ARROW_DEFAULT_MEMORY_POOL": "system"}
        return super().run(side, group)
