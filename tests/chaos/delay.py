"""Delay and reordering of what a node receives, without netem: the kernel hands packets to a queue (NFQUEUE), and verdicts come late and out of order."""

import heapq
import os
import random
import select
import shutil
import socket
import struct
import threading
import time

NETLINK_NETFILTER, SUBSYSTEM, QUEUE = 12, 3 << 8, 1
PACKET, VERDICT, CONFIG = SUBSYSTEM | 0, SUBSYSTEM | 1, SUBSYSTEM | 2
CFG_CMD, CFG_PARAMS, BIND, COPY_META = 1, 2, 1, 1
PACKET_HDR, VERDICT_HDR, ACCEPT = 1, 2, 1
REQUEST, HEAD_BYTES, RECEIVE_BYTES, BUFFER_BYTES = 1, 20, 1 << 16, 4 << 20
RULE = ("INPUT", "-i", "e0", "-j", "NFQUEUE", "--queue-num", str(QUEUE), "--queue-bypass")


def is_there():
    return shutil.which("iptables-legacy") is not None


def attribute(kind, value):
    return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind, body):
    return struct.pack("IHHII", HEAD_BYTES + len(body), kind, REQUEST, 0, 0) + struct.pack(">BBH", socket.AF_UNSPEC, 0, QUEUE) + body


def packet_ids(data):
    """Of the packets that one receive brought."""
    at = 0
    while at + HEAD_BYTES <= len(data):
        size, kind = struct.unpack_from("IH", data, at)
        inner, end = at + HEAD_BYTES, at + size
        while kind == PACKET and inner + 4 <= end:
            length, name = struct.unpack_from("HH", data, inner)
            if name & 0x3FFF == PACKET_HDR:
                yield struct.unpack_from(">I", data, inner + 4)[0]
            inner += max(4, length + -length % 4)
        at += max(HEAD_BYTES, size + -size % 4)


class Delay:
    """Of one node, from start() to stop(): each packet waits for 'ms' and up to 'jitter_ms' more; a large jitter reorders."""

    def __init__(self, node, ms, jitter_ms):
        self.node, self.ms, self.jitter_ms = node, ms, jitter_ms
        self.stopping, self.socket = threading.Event(), None
        self.seen, self.thread = 0, threading.Thread(target=self.work, daemon=True)

    def start(self, run):
        self.node.call(self.bind)
        self.thread.start()
        self.node.call(run, "iptables-legacy", "-A", *RULE)
        return self

    def bind(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.socket.bind((0, 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self.socket.send(message(CONFIG, attribute(CFG_CMD, struct.pack(">BBH", BIND, 0, socket.AF_INET))))
        self.socket.send(message(CONFIG, attribute(CFG_PARAMS, struct.pack(">IB", 0, COPY_META))))
        self.socket.setblocking(False)

    def work(self):
        rng, due = random.Random(os.urandom(8)), []
        while not self.stopping.is_set() or due:
            now = time.monotonic()
            while due and (due[0][0] <= now or self.stopping.is_set()):
                self.socket.send(message(VERDICT, attribute(VERDICT_HDR, struct.pack(">II", ACCEPT, heapq.heappop(due)[1]))))
            if select.select([self.socket], [], [], 0.001 if due else 0.02)[0]:
                try:
                    for packet in packet_ids(self.socket.recv(RECEIVE_BYTES)):
                        self.seen += 1
                        heapq.heappush(due, (time.monotonic() + (self.ms + rng.random() * self.jitter_ms) / 1000, packet))
                except OSError:  # The kernel had more than its buffer takes: those packets are lost, as packets may be.
                    pass

    def stop(self, run):
        self.node.call(run, "iptables-legacy", "-D", *RULE)
        self.stopping.set()
        self.thread.join()
        self.socket.close()
