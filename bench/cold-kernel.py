"""A kernel started by jupyter_client, to its first result: prints milliseconds and proportional memory in MB."""

import re
import sys
import time

from jupyter_client.manager import KernelManager

CODE = "import numpy, pandas, matplotlib.pyplot\n1 + 1"


def memory_share(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        share = re.search(r"^Pss:\s+(\d+)", file.read(), re.M)
    assert share
    return int(share[1]) / 1024


began = time.perf_counter()
manager = KernelManager()
manager.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
manager.start_kernel()
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready()
client.execute_interactive(CODE, output_hook=lambda _message: None)
milliseconds = (time.perf_counter() - began) * 1000
print(milliseconds, memory_share(manager.provisioner.pid))
client.stop_channels()
manager.shutdown_kernel(now=True)
