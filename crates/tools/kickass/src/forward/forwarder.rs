//! The forwarder, sans-IO: packets from devices enter by [`Forwarder::receive`], packets for devices leave by
//! [`Forwarder::poll_transmit`].

use std::time::Instant;

use kickass::packet::Packet;

use super::{
    config::Config,
    icmp::{Icmp, Trouble},
    pool::Pool,
    port::Port,
    routes::Routes,
    statistics::Totals,
};

/// Extra buffer space that reveals packets longer than the MTU.
const SLACK: usize = 4;
/// Fragment offsets are multiples of this (RFC 791 §3.1).
const FRAGMENT_UNIT: usize = 8;

/// Ports and the routes between them. `now` never runs backwards between calls.
#[derive(Debug)]
pub struct Forwarder {
    ports: Vec<Port>,
    routes: Routes,
    icmp: Icmp,
    pool: Pool,
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
            icmp: Icmp::new(config.forward.addresses.clone(), now),
            pool: Pool::new(mtu_max + SLACK),
        }
    }

    /// Changes to another configuration, which [`Config::check_reload`] must allow. Only packets that no longer fit
    /// into a smaller buffer are lost.
    pub fn reload(&mut self, config: &Config, now: Instant) {
        self.advance(now);
        for (port, config) in self.ports.iter_mut().zip(&config.port) {
            port.change(config.clone(), now);
        }
        self.routes = Routes::new(&config.port);
        self.icmp.set_addresses(config.forward.addresses.clone());
    }

    /// An empty buffer for a packet of any port.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.pool.take()
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.pool.put(buffer);
    }

    /// Lets the links transmit up to `now`. Call it before [`Self::receive`] at the same instant.
    pub fn advance(&mut self, now: Instant) {
        for port in &mut self.ports {
            port.advance(now);
        }
    }

    /// A packet arrived from the device of a port.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn receive(&mut self, now: Instant, from: usize, bytes: Vec<u8>) {
        self.ports[from].received.add(bytes.len());
        let Ok(packet) = Packet::parse(bytes) else {
            self.ports[from].drops.malformed += 1;
            return;
        };
        if let Err((packet, trouble)) = self.forward(now, packet) {
            let drops = &mut self.ports[from].drops;
            *match trouble {
                Trouble::HopLimit => &mut drops.hop_limit,
                Trouble::TooBig(_) => &mut drops.too_big,
                Trouble::NoRoute => &mut drops.no_route,
            } += 1;
            self.answer(now, from, &packet, trouble);
            self.recycle(packet.into_bytes());
        }
    }

    /// A packet to write to the device of a port; call again until `None`.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn poll_transmit(&mut self, now: Instant, port: usize) -> Option<Vec<u8>> {
        self.ports[port].poll_transmit(now)
    }

    /// The device of a port accepted a packet of this many bytes, or refused it.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn on_transmit(&mut self, port: usize, bytes: usize, taken: bool) {
        match taken {
            true => self.ports[port].sent.add(bytes),
            false => self.ports[port].drops.device += 1,
        }
    }

    /// When to call [`Self::advance`] and [`Self::poll_transmit`] again; `None` if the links are empty.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.ports.iter().filter_map(Port::poll_timeout).min()
    }

    /// Statistics so far.
    pub fn totals(&self) -> Totals {
        Totals { ports: self.ports.iter().map(Port::totals).collect() }
    }

    fn forward(&mut self, now: Instant, mut packet: Packet) -> Result<(), (Packet, Trouble)> {
        let Some(to) = self.routes.find(packet.destination()) else {
            return Err((packet, Trouble::NoRoute));
        };
        let port = &mut self.ports[to];
        let mtu = port.mtu();
        let whole = packet.total_len() <= usize::from(mtu);
        if !whole && (packet.is_ipv6() || packet.dont_fragment()) {
            return Err((packet, Trouble::TooBig(mtu)));
        }
        if !packet.decrement_hop_limit() {
            return Err((packet, Trouble::HopLimit));
        }
        while packet.total_len() > usize::from(mtu) {
            let headers = packet.total_len() - packet.payload().len();
            let lead = usize::from(mtu).saturating_sub(headers) / FRAGMENT_UNIT * FRAGMENT_UNIT;
            // Identifications are for IPv6, which is not fragmented here.
            let Ok(rest) = packet.split(lead, 0) else { return Err((packet, Trouble::TooBig(mtu))) };
            port.enqueue(now, std::mem::replace(&mut packet, rest));
        }
        port.enqueue(now, packet);
        Ok(())
    }

    /// Sends an ICMP message to the sender of a packet, routed like any packet to it.
    fn answer(&mut self, now: Instant, from: usize, packet: &Packet, trouble: Trouble) {
        let Some(back) = self.routes.find(packet.source()) else { return };
        let Some(bytes) = self.icmp.message(now, packet, trouble) else { return };
        if let Ok(message) = Packet::parse(bytes) {
            self.ports[back].enqueue(now, message);
            self.ports[from].icmp += 1;
        }
    }
}

#[cfg(test)]
mod tests;
