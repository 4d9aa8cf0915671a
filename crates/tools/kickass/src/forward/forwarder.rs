//! The forwarder, sans-IO: packets from devices enter by [`Forwarder::receive`], packets for devices leave by
//! [`Forwarder::poll_transmit`].

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kickass::{
    offload::{Account, DevicePacket, Offload, Segment, SegmentRun, SuperPacket, SuperSegment},
    packet::Packet,
};

use super::{
    config::Config,
    icmp::{Icmp, Trouble},
    pool::Pool,
    port::Port,
    routes::{Routes, may_cross},
    statistics::Totals,
};

pub use super::port::RunLimits;

/// Extra buffer space that reveals packets longer than the MTU.
const SLACK: usize = 4;
/// Longest packet from a device.
const PACKET_MAX: usize = 65_535;
/// Buffers of super-packets that may be in use in addition to twice the bytes of waiting packets. A segment keeps the
/// whole buffer, so without a limit hosts that make a queue drop all other segments could use 40 times its limit.
const SHARED_MAX: u64 = 16 << 20;

/// Ports and the routes between them. `now` never runs backwards between calls.
pub struct Forwarder {
    ports: Vec<Port>,
    routes: Routes,
    icmp: Icmp,
    /// Buffers for packets of the MTU, and for the longest.
    pool: Pool,
    long_pool: Pool,
    /// Buffers of super-packets in use.
    shared: Account,
    coalesce: Duration,
}

impl Forwarder {
    /// A forwarder whose links are idle. `seed` is random.
    pub fn new(config: &Config, seed: u64, now: Instant) -> Self {
        let ports = config.port.iter().enumerate();
        let mtu_max = config.port.iter().map(|port| usize::from(port.mtu)).max().unwrap_or(0);
        Self {
            // Odd, so that different numbers give different seeds.
            ports: ports
                .map(|(n, port)| Port::new(port.clone(), n, seed.wrapping_add(n as u64 * 0x9e37_79b9), now))
                .collect(),
            routes: Routes::new(&config.port),
            icmp: Icmp::new(config.forward.addresses.clone(), config.port.len(), now),
            pool: Pool::new(mtu_max + SLACK),
            long_pool: Pool::new(PACKET_MAX),
            shared: Account::default(),
            coalesce: config.forward.coalesce,
        }
    }

    /// Changes to another configuration, which [`Config::check_reload`] must allow. Only a change of a queue can lose
    /// packets: those that no longer fit, and those that CoDel finds too old.
    pub fn reload(&mut self, config: &Config, now: Instant) {
        self.advance(now);
        for (port, config) in self.ports.iter_mut().zip(&config.port) {
            port.change(config.clone(), now);
        }
        self.routes = Routes::new(&config.port);
        self.icmp.addresses.clone_from(&config.forward.addresses);
        self.coalesce = config.forward.coalesce;
    }

    /// A buffer for a packet of any port, a little longer than the MTU. Its content is arbitrary.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.pool.take()
    }

    /// A buffer for any super-packet.
    pub fn long_buffer(&mut self) -> Vec<u8> {
        self.long_pool.take()
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        match buffer.capacity() == self.long_pool.len() {
            true => self.long_pool.put(buffer),
            false => self.pool.put(buffer),
        }
    }

    /// Lets the links transmit up to `now`. Call it before [`Self::receive`] at the same instant.
    pub fn advance(&mut self, now: Instant) {
        for port in &mut self.ports {
            port.advance(now);
        }
    }

    /// A packet arrived from the device of a port, which left this to the device: `None` is a kind that the device did
    /// not offer, so the packet counts as malformed. Segments are packets of their own. Returns how many packets it was.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn receive(&mut self, now: Instant, from: usize, bytes: Vec<u8>, offload: Option<Offload>) -> usize {
        let len = bytes.len();
        let arrival = offload.and_then(|offload| {
            let packet = Packet::parse(bytes).ok()?;
            offload.apply(packet, &self.shared).ok()
        });
        let port = &mut self.ports[from];
        port.counted.reads += 1;
        match arrival {
            None => {
                port.counted.received.add(len);
                port.count_dropped("malformed", 1);
                1
            }
            Some(DevicePacket::Whole(packet)) => {
                port.counted.received.add(len);
                let packet = self.compact(packet);
                self.receive_packet(now, from, packet);
                1
            }
            Some(DevicePacket::Super(packet)) => {
                let count = packet.count();
                port.counted.received.packets += count as u64;
                port.counted.received.bytes += packet.bytes() as u64;
                self.receive_super(now, from, packet);
                count
            }
        }
    }

    /// A packet to write to the device of a port. Segments that follow each other go into `run`, which must be empty; a
    /// packet on its own is returned. Call again until there is neither.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        port: usize,
        limits: RunLimits,
        run: &mut SegmentRun,
    ) -> Option<Vec<u8>> {
        self.ports[port].poll_transmit(now, limits, run).map(|segment| segment.into_packet().into_bytes())
    }

    /// The device of a port accepted packets of this many bytes together, or refused them.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn on_transmit(&mut self, port: usize, packets: usize, bytes: usize, taken: bool) {
        let port = &mut self.ports[port];
        if taken {
            port.counted.writes += 1;
            port.counted.sent.packets += packets as u64;
            port.counted.sent.bytes += bytes as u64;
        } else {
            port.count_dropped("device", packets);
        }
    }

    /// When to call [`Self::advance`] and [`Self::poll_transmit`] again; `None` if the links are empty.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.ports.iter().filter_map(|port| port.poll_timeout(self.coalesce)).min()
    }

    /// Statistics so far.
    pub fn totals(&self) -> Totals {
        Totals {
            ports: self.ports.iter().map(Port::totals).collect(),
            shared_bytes: self.shared.bytes() as u64,
        }
    }

    /// The packet in a buffer of at most twice its length. It may wait, and queues count the length.
    fn compact(&mut self, packet: Packet) -> Packet {
        if packet.total_len() >= packet.capacity() / 2 {
            return packet;
        }
        let copy = packet.clone();
        self.recycle(packet.into_bytes());
        copy
    }

    fn receive_packet(&mut self, now: Instant, from: usize, packet: Packet) {
        if let Err((packet, trouble)) = self.forward(now, from, packet) {
            let reason = match trouble {
                Trouble::HopLimit => "hop_limit",
                Trouble::TooBig(_) => "too_big",
                Trouble::NoRoute => "no_route",
            };
            self.ports[from].count_dropped(reason, 1);
            self.answer(now, from, &packet, trouble);
            self.recycle(packet.into_bytes());
        }
    }

    fn receive_super(&mut self, now: Instant, from: usize, mut packet: SuperPacket) {
        if let Some(to) = self.shared_way(&packet)
            && packet.decrement_hop_limit()
        {
            for part in SuperSegment::all(&Arc::new(packet)) {
                self.ports[to].enqueue(now, from, Segment::Part(part));
            }
            return;
        }
        for index in 0..packet.count() {
            self.receive_packet(now, from, packet.segment(index));
        }
        self.recycle(packet.into_bytes());
    }

    /// The port to which all segments go unchanged, if they can share the bytes of their super-packet.
    fn shared_way(&self, packet: &SuperPacket) -> Option<usize> {
        let to = self.route(packet.packet())?;
        let fits = packet.segment_len(0) <= usize::from(self.ports[to].mtu());
        (fits && self.may_share()).then_some(to)
    }

    /// The port to which a packet goes, if any.
    fn route(&self, packet: &Packet) -> Option<usize> {
        self.routes.find(packet.destination()).filter(|_| may_cross(packet))
    }

    fn may_share(&self) -> bool {
        let shared = self.shared.bytes() as u64;
        shared <= SHARED_MAX || shared <= SHARED_MAX + 2 * self.ports.iter().map(Port::bytes).sum::<u64>()
    }

    fn forward(&mut self, now: Instant, from: usize, mut packet: Packet) -> Result<(), (Packet, Trouble)> {
        let Some(to) = self.route(&packet) else { return Err((packet, Trouble::NoRoute)) };
        let mtu = self.ports[to].mtu();
        let whole = packet.total_len() <= usize::from(mtu);
        if !whole && (packet.is_ipv6() || packet.dont_fragment()) {
            return Err((packet, Trouble::TooBig(mtu)));
        }
        if !packet.decrement_hop_limit() {
            return Err((packet, Trouble::HopLimit));
        }
        // Identifications are for IPv6, which is not fragmented here.
        while let Some(leading) = packet.split_leading(mtu.into(), 0) {
            // Each is at the front of a buffer for all that follows it.
            let leading = self.compact(leading);
            self.ports[to].enqueue(now, from, leading.into());
        }
        if packet.total_len() > usize::from(mtu) {
            return Err((packet, Trouble::TooBig(mtu)));
        }
        self.ports[to].enqueue(now, from, packet.into());
        Ok(())
    }

    /// Sends an ICMP message to the sender of a packet, routed like any packet to it.
    fn answer(&mut self, now: Instant, from: usize, packet: &Packet, trouble: Trouble) {
        let Some(back) = self.routes.find(packet.source()) else { return };
        let Some(bytes) = self.icmp.message(now, from, packet, trouble) else { return };
        if let Ok(message) = Packet::parse(bytes) {
            self.ports[back].enqueue(now, from, message.into());
            self.ports[from].counted.icmp += 1;
        }
    }
}

#[cfg(test)]
mod tests;
