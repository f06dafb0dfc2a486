"""How forks of a kernel show something: through a socket in its own folder, where ipykernel takes a TCP port of the machine."""

import os

import zmq
from ipykernel.iostream import IOPubThread
from zmq.eventloop.zmqstream import ZMQStream


def thread_class(folder):
    """The class of the thread that sends what the kernel and its forks show; `folder` is that of its sockets."""

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
            # A context does not survive a fork.
            context = zmq.Context()
            pipe_out = context.socket(zmq.PUSH)
            # What cannot be sent by then is dropped: a fork must be able to end.
            pipe_out.linger = 3000
            pipe_out.connect(self._address)
            return context, pipe_out

    return ForkPipeThread
