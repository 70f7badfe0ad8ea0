"""Tests that the output of each load generator is read. Run by CTest, or by hand: test_latencies.py"""
import unittest

import latencies

REDIS = """ SET: rps=0.0 (overall: 36000.0) avg_msec=0.033 (overall: 0.033)
====== SET ======
  40 requests completed in 0.00 seconds

Latency by percentile distribution:
0.000% <= 0.023 milliseconds (cumulative count 28)
75.000% <= 0.071 milliseconds (cumulative count 32)
100.000% <= 0.871 milliseconds (cumulative count 40)

Cumulative distribution of latencies:
90.000% <= 0.103 milliseconds (cumulative count 36)
100.000% <= 0.903 milliseconds (cumulative count 40)

Summary:
  throughput summary: 40000.00 requests per second

====== HSET ======
Latency by percentile distribution:
100.000% <= 0.023 milliseconds (cumulative count 40)

Summary:
  throughput summary: 20000.00 requests per second
"""
PGBENCH = """number of transactions actually processed: 3/3
latency average = 0.300 ms
tps = 1500.000000 (without initial connection time)
"""
PGBENCH_LOG = """0 1 412 0 1795000000 100412
1 1 3075 1 1795000000 103075
0 2 500 2 1795000000 100912
"""
H2LOAD = """finished in 2.00s, 1.50 req/s, 1.2MB/s
requests: 4 total, 4 started, 4 done, 3 succeeded, 1 failed, 0 errored, 0 timeout
"""
H2LOAD_LOG = "1795000000000000\t200\t1200\n1795000000000100\t200\t800\n1795000000000200\t502\t90\n1795000000000300\t200\t5000\n"
SYSBENCH = """Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       9.388 |****************************************  8
      12.523 |*****                                     1
      20.740 |                                          1

SQL statistics:
    transactions:                        10     (5.00 per sec.)
    queries:                             200    (100.00 per sec.)
"""


class Generators(unittest.TestCase):
    def test_each_is_read(self) -> None:
        for name, printed, log, expected, seconds in (
            ("redis-benchmark", REDIS, "", [(0.023, 28), (0.071, 4), (0.103, 4), (0.871, 4), (0.903, 0), (0.023, 40)], 0.003),
            ("pgbench", PGBENCH, PGBENCH_LOG, [(0.412, 1), (3.075, 1), (0.5, 1)], 0.002),
            ("h2load", H2LOAD, H2LOAD_LOG, [(1.2, 1), (0.8, 1), (5.0, 1)], 2.0),
            ("sysbench", SYSBENCH, "", [(9.388, 8), (12.523, 1), (20.740, 1)], 2.0),
        ):
            with self.subTest(name):
                found, took = latencies.read(name, printed, log)
                self.assertEqual(found, expected)
                self.assertAlmostEqual(took, seconds)

    def test_a_percentile_is_the_least_latency_that_the_share_does_not_exceed(self) -> None:
        found = [(9.0, 1), (1.0, 90), (4.0, 9)]
        for share, ms in ((0.5, 1.0), (0.9, 1.0), (0.91, 4.0), (0.99, 4.0), (0.999, 9.0)):
            self.assertEqual(latencies.percentile(found, share), ms)

    def test_output_without_results_has_no_request(self) -> None:
        for name in latencies.GENERATORS:
            self.assertEqual(latencies.read(name, "connection refused\n", ""), ([], 0.0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
