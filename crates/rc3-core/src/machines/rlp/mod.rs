//! The RLP loop: when it may send, at which level, how much at once (RC3 §2.1). It knows neither streams nor bytes; the
//! connection asks it for an [allowance](Rlp::allowance) and reports what was sent, and does not ask while the primary
//! sends to an address that is not validated (`connection/addresses.rs`).
//!
//! In guard mode a [`PathLaws`] limits its rate, and decides whether a queue of RLP would harm others. In trust mode it sends as fast as the card accepts, as in the papers.

pub(crate) mod arrivals;
pub(crate) mod openers;
pub(crate) mod watch;

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use self::watch::PathLaws;
use crate::laws::{
    clock::{Departure, PathNow, Permit},
    ladder::Ladder,
    pacer::Pacer,
    verdicts::DestinationVerdict,
};
use crate::seams::keys::{ReceiptKey, Sealer, Sealing};
use crate::{
    config::{RlpMode, TransportConfig},
    laws::primary_window::Window,
    quic::StreamId,
    transmit::Transmit,
    units::Level,
    wire::{arrival::Arrival, order::Order},
};

/// Lower bound of what a rate-capped RLP loop may send at once on slow cards, in bytes: two packets.
const PACER_BURST_MIN: u64 = 3000;

/// Fraction of the bytes that the path took in a round trip that may be sent before the handshake is complete: half of
/// it, if a queue of RLP may harm others (RFC 9959 §4 uses the same fraction of a window). Even on a much slower path
/// there is then still room for the packet that ends the handshake.
const EARLY_PART: u64 = 2;

/// The level in the header of a datagram at the primary's priority, which has no number of its own there.
const HEADER_LEVEL: Level = Level::FIRST;

/// The sending side of the RLP loop of one connection, once keys exist. `openers` is the receiving side.
pub(crate) struct Rlp {
    /// The sealer of datagrams.
    pub(crate) seal: Sealer,
    /// The first packet number after early data.
    established: u64,
    /// Bytes of early data that may still leave on a path not known to honour priorities; `None`: no bound.
    early_left: Option<u64>,
    pub(crate) receipts: ReceiptKey,
    ladder: Ladder,
    pacer: Option<Pacer>,
    /// Present in [`RlpMode::Guard`].
    pub(crate) watch: Option<PathLaws>,
    /// Packets sent in this busy period.
    pub(crate) sent: u64,
    /// When the loop may continue, if its rate or the card stopped it.
    wake: Option<Instant>,
}

impl Rlp {
    /// A loop that starts at level 1 on a path whose round trip is about `rtt`.
    pub(crate) fn new(seal: Sealer, receipts: ReceiptKey, config: &TransportConfig, rtt: Duration) -> Self {
        Self {
            seal,
            established: 0,
            early_left: None,
            receipts,
            ladder: config.ladder,
            pacer: config
                .nic_rate
                .map(|rate| Pacer::new(rate, rate.bytes_in(config.law.host_lateness).max(PACER_BURST_MIN))),
            watch: (config.rlp == RlpMode::Guard).then(|| PathLaws::new(config, rtt)),
            sent: 0,
            wake: None,
        }
    }

    /// Starts before the handshake is complete, with the memory of the path.
    pub(crate) fn begin_early(&mut self, now: Instant, record: DestinationVerdict) {
        if let Some(watch) = &mut self.watch {
            watch.recall(now, record);
        }
        self.early_left = record.pace.filter(|_| self.watch.is_some()).map(|pace| pace.bdp() / EARLY_PART);
    }

    /// The handshake is complete, and the server has accepted early data: continues with the handshake's keys. There
    /// was no feedback so far; the clock learns from the flight that starts now.
    pub(crate) fn on_established(&mut self, seal: Sealer) {
        self.established = self.seal.next_number();
        self.seal = seal.continuing_at(self.established);
        self.early_left = None;
        self.wake = None;
        if let Some(watch) = &mut self.watch {
            watch.start_busy_period();
        }
    }

    /// One datagram at the primary's priority, on the path from the second address to the first; appended to `buf`.
    pub(crate) fn write_alone(
        &mut self,
        (destination, source): (SocketAddr, Option<IpAddr>),
        begin: fn(&mut Sealer, Level, &mut Vec<u8>) -> Sealing,
        payload: impl FnOnce(&mut Vec<u8>),
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let sealing = begin(&mut self.seal, HEADER_LEVEL, buf);
        payload(buf);
        self.seal.finish(sealing, buf);
        Transmit {
            destination,
            source,
            level: Level::PRIMARY,
            ecn: 0,
            size: buf.len(),
            segment_size: None,
            dont_fragment: true,
        }
    }

    /// Lets the guard evaluate new samples. `is_open` returns whether a byte that RLP has sent still waits for its SACK.
    /// Returns whether the path is now known to ignore marks.
    pub(crate) fn evaluate_samples(&mut self, now: Instant, is_open: impl Fn(StreamId, u64) -> bool) -> bool {
        let Some(watch) = &mut self.watch else { return false };
        // What RLP was waiting for may have arrived.
        self.wake = None;
        watch.guard.evaluate_samples(now, is_open)
    }

    /// RLP datagrams in flight that left in the last two round trips and may have caused a loss of the primary; none if
    /// priorities are honoured, nor in trust mode, which assumes that.
    pub(crate) fn in_the_way(&self, now: Instant, rtt: Duration) -> u64 {
        let since = now.checked_sub(rtt * 2).unwrap_or(now);
        let watch = self.watch.as_ref().filter(|watch| !watch.is_honoured());
        watch.map_or(0, |watch| watch.clock.departures.in_flight_since(since))
    }

    /// The level of the last packet in this busy period.
    pub(crate) fn last_level(&self) -> Option<Level> {
        let (level, _) = self.ladder.level_of(self.sent.checked_sub(1)?)?;
        Some(level)
    }

    /// Everything written has been delivered: what follows is a new logical flow, which starts at level 1 again (RC3
    /// §4.2.1).
    pub(crate) fn start_busy_period(&mut self) {
        self.sent = 0;
        if let Some(watch) = &mut self.watch {
            watch.start_busy_period();
        }
    }

    /// The peer has moved from `before` to the validated address `remote`. The round trip there is about `rtt`.
    pub(crate) fn on_new_path(&mut self, before: SocketAddr, remote: SocketAddr, rtt: Duration) {
        self.wake = None;
        // Another port is another mapping of the same address (RFC 4787), most likely on the same path.
        if remote.ip() != before.ip() {
            self.leave_path(rtt);
        }
    }

    /// Nothing that was measured counts any more. The round trip of the new path is about `rtt`.
    pub(crate) fn leave_path(&mut self, rtt: Duration) {
        self.wake = None;
        if let Some(watch) = &mut self.watch {
            watch.on_new_path(rtt);
        }
    }

    /// What may be sent now: the level, and how many full packets, at least one. `None` until the wait is over
    /// ([`Self::timeout`]), if the ladder has no level left in this busy period, or if early data has reached its limit.
    pub(crate) fn allowance(
        &mut self,
        now: Instant,
        window: &Window,
        rtt_min: Duration,
    ) -> Option<(Level, u64)> {
        let packet_bytes = u64::from(window.mtu);
        let (level, mut remaining) = self.ladder.level_of(self.sent)?;
        let (mut honoured, mut burst) = (false, 0);
        if let Some(watch) = &mut self.watch {
            watch.guard.expire(now);
            honoured = watch.is_honoured();
            burst = watch.burst(now, packet_bytes);
            let path =
                PathNow { packet_bytes, primary_in_flight: window.in_flight, rtt_min, honoured, burst };
            match watch.clock.permit(now, path) {
                Permit::Wait(until) => {
                    self.wake = Some(until);
                    return None;
                }
                Permit::Bytes(bytes) => remaining = remaining.min(bytes.div_ceil(packet_bytes)),
            }
        }
        if let Some(left) = self.early_left.filter(|_| !honoured) {
            remaining = remaining.min(left / packet_bytes);
            if remaining == 0 {
                return None;
            }
        }
        let packets = match &mut self.pacer {
            // In front of a card as fast as the path a burst has to wait as well, to be overtaken.
            _ if burst > 0 => remaining,
            None => remaining,
            Some(pacer) => match pacer.budget(now) / packet_bytes {
                0 => {
                    self.wake = Some(pacer.ready_at(now, packet_bytes));
                    return None;
                }
                packets => packets.min(remaining),
            },
        };
        Some((level, packets))
    }

    /// Whether it waits for [`Self::timeout`] before it sends more.
    pub(crate) fn waits(&self) -> bool {
        self.wake.is_some()
    }

    /// The connection is lost.
    pub(crate) fn stop(&mut self) {
        self.wake = None;
    }

    /// The receiver's report, of a datagram that it has `proved` to have or not. `false`: it names one that was never sent.
    pub(crate) fn on_arrival(&mut self, now: Instant, arrival: Arrival, proved: bool) -> bool {
        self.wake = None;
        // To the receiver, the pause between early data and later data looks like a low rate.
        let of_this_flight = arrival.packet_number >= self.established;
        if let Some(watch) = self.watch.as_mut().filter(|_| of_this_flight && proved) {
            watch.on_arrival(now, arrival);
        }
        arrival.packet_number < self.seal.next_number()
    }

    /// When to call [`Self::on_timeout`].
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.wake.into_iter().chain(self.watch.as_ref().and_then(PathLaws::timeout)).min()
    }

    /// Call it when the time of [`Self::timeout`] may have come.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.wake = self.wake.filter(|&wake| wake > now);
        if let Some(watch) = &mut self.watch {
            watch.order.on_timeout(now);
        }
    }

    /// Whether a PROBE at normal priority should follow RLP's last burst.
    pub(crate) fn wants_order_probe(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.order.is_due() && watch.is_unproven())
    }

    /// The datagram sealed last was the PROBE.
    pub(crate) fn on_order_probe_sent(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.order.on_probe_sent(now, self.seal.next_number() - 1, watch.clock.missing);
        }
    }

    /// The receiver reports what the PROBE has overtaken. Returns whether the path is now known to ignore marks; `None`:
    /// it names a datagram that was never sent.
    pub(crate) fn on_order(&mut self, now: Instant, order: Order) -> Option<bool> {
        if order.packet_number >= self.seal.next_number() {
            return None;
        }
        Some(self.watch.as_mut().is_some_and(|watch| watch.on_order(now, order)))
    }

    /// A batch of data packets with `bytes` in total was written. The guard should watch it by the byte at this offset,
    /// with so many bytes of the primary in flight.
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        departure: Departure,
        bytes: u64,
        guarded: Option<(u64, u64)>,
    ) {
        self.sent += departure.packets;
        self.early_left = self.early_left.map(|left| left.saturating_sub(bytes));
        if let Some(watch) = &mut self.watch {
            watch.on_rlp_sent(now, departure, bytes, guarded);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.on_rlp_sent(now, bytes);
        }
    }

    /// The primary has sent `bytes`, which use their share of the card.
    pub(crate) fn on_primary_sent(&mut self, now: Instant, bytes: u64) {
        if let Some(watch) = &mut self.watch {
            watch.clock.on_primary_sent(now, bytes);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.on_primary_sent(now, bytes);
        }
    }
}
