"""Output of a kernel's forks, through a socket in its own folder, where ipykernel uses a TCP port."""

import os

import zmq
from ipykernel.iostream import IOPubThread
from zmq.eventloop.zmqstream import ZMQStream


def thread_class(folder):
    """The class of the thread that sends output of the kernel and its forks. `folder`: of its sockets."""

    class ForkPipeThread(IOPubThread):
        _address = "ipc://%s/forks" % folder

        def _setup_pipe_in(self):
            self._pipe_uuid = os.urandom(16)
            pipe_in = self.socket.context.socket(zmq.PULL)
            pipe_in.linger = 0
            pipe_in.bind(self._address)
            self._pipe_in = ZMQStream(pipe_in, self.io_loop)
            self._pipe_in.on_recv(self._handle_pipe_msg)

        def _setup_pipe_out(self):
            # A ZeroMQ context does not survive a fork.
            context = zmq.Context()
            pipe_out = context.socket(zmq.PUSH)
            # Unsent output is dropped after this time: a fork must be able to end.
            pipe_out.linger = 3000
            pipe_out.connect(self._address)
            return context, pipe_out

    return ForkPipeThread
