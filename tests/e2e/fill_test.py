#!/usr/bin/env python3
"""A fleet feeds itself: nodes behind links of their own, of which the source's carries a version about once, not once for each node."""

import unittest

from links import LinkedFleet, Links

NODES, MBIT, MIB = 6, 100, 24


@unittest.skipUnless(Links.can_be_had(), "network namespaces with limited links need root, iproute2 and the kernel's tbf")
class Fill(unittest.TestCase):
    def serving(self, links):
        self.addCleanup(links.remove)
        links.make()
        fleet = LinkedFleet(links)
        self.addCleanup(fleet.close)
        fleet.start()
        fleet.wait_connected()
        fleet.publish("v1")
        fleet.wait_serving(1)
        return fleet

    def test_the_source_sends_a_version_about_once(self):
        links = Links([f"node-{i}" for i in range(NODES)], MBIT)
        fleet = self.serving(links)
        large = fleet.large(MIB)
        before = links.sent()
        version = fleet.publish(large)
        fleet.wait_filled(version["digest"], 120)
        copies = {name: (sent - before[name]) / (MIB << 20) for name, sent in links.sent().items()}
        self.assertGreater(copies[fleet.source()], 1, copies)
        self.assertLess(copies[fleet.source()], 2, copies)
        # Each of the others got it from somebody, over its own link.
        self.assertGreater(sum(copies.values()), NODES - 1, copies)
        fleet.wait_serving(2)

    def test_a_version_crosses_a_slow_link_between_zones_once(self):
        names = [f"node-{i}" for i in range(NODES)]
        links = Links(names, MBIT, {name: "east" if i % 2 else "west" for i, name in enumerate(names)}, MBIT // 2)
        fleet = self.serving(links)
        large = fleet.large(MIB)
        before = links.crossed()
        version = fleet.publish(large)
        fleet.wait_filled(version["digest"], 120)
        crossed = (links.crossed() - before) / (MIB << 20)
        self.assertGreater(crossed, 1)
        self.assertLess(crossed, 1.5)
        fleet.wait_serving(2)


if __name__ == "__main__":
    unittest.main()
