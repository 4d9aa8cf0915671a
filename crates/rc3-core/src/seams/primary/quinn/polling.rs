//! Drives a connection: events, output, timeouts.

use std::{sync::atomic::Ordering::Relaxed, time::Instant};

use super::{
    Quic, congestion_state::CongestionState, from_transmit, silence::Silence, steering::SharedSteering,
};
use crate::{
    laws::{
        departures::PacedDepartures,
        primary_window::{Waiting, Window},
    },
    quic::{PrimaryEvent, congestion::Controller},
    transmit::{BATCH_BYTES_MAX, Transmit},
};

impl Quic {
    /// Events since the last call, oldest first.
    pub(crate) fn poll_event(&mut self, now: Instant) -> Option<PrimaryEvent> {
        let event = self.conn.poll()?;
        match &event {
            PrimaryEvent::ConnectionLost { reason } => self.judge_session(reason),
            // No PING could ask for an answer before.
            PrimaryEvent::Connected => self.silence = Silence::new(now),
            _ => {}
        }
        Some(event)
    }

    /// When [`Self::handle_timeout`] wants to be called.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let steering = self.steering.as_ref().and_then(SharedSteering::poll_timeout);
        let deadlines = [self.conn.poll_timeout(), self.silence_deadline(), self.departure, steering];
        deadlines.into_iter().flatten().min()
    }

    /// A deadline of [`Self::poll_timeout`] has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some(steering) = &self.steering {
            self.shared.cwnd.store(steering.handle_timeout(now), Relaxed);
        }
        self.departure = self.departure.filter(|&departure| departure > now);
        if self.conn.poll_timeout().is_some_and(|deadline| deadline <= now) {
            self.conn.handle_timeout(now);
            self.silence.on_timeout();
        }
        if self.silence_deadline().is_some_and(|deadline| deadline <= now) {
            self.silence.on_asked(now, self.conn.rtt());
            self.probe_at_once();
        }
    }

    /// Writes up to `datagrams_max` datagrams of equal length (the last may be shorter) into the empty `buf`.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        datagrams_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        debug_assert!(buf.is_empty());
        // Also back to the old path, if the new one could not be validated. With too small a count quinn-proto still
        // enforces the window; with too large a count, feeding would stop for ever.
        if self.remote != self.conn.remote_address() {
            self.remote = self.conn.remote_address();
            self.shared.on_new_path();
            self.search = None;
            self.departures = PacedDepartures::new(now);
            self.silence = Silence::new(now);
        }
        if self.shared.acks_came.swap(false, Relaxed) {
            self.silence.on_acks(now, self.shared.newest_acked());
        }
        self.look_for_lost_probe();
        self.shared.consulted.store(0, Relaxed);
        let mtu = self.conn.current_mtu();
        // quinn-proto 0.11.19 asks window and pacer also for a CONNECTION_CLOSE if data waits, and once it is closed no
        // acknowledgment opens them (quinn issue 2785).
        if self.conn.is_closed() {
            self.shared.window_open.store(true, Relaxed);
        }
        // One packet is enough to ask: its acknowledgment reveals all earlier losses.
        let asking = self.shared.window_open.load(Relaxed);
        self.pace(now);
        let rate = self.rate();
        let may_fragment = self.may_fragment(now);
        // The pace is checked for each packet, and a fragmentable packet leaves alone.
        let alone = asking || may_fragment || self.due != u64::MAX;
        let datagrams_max =
            if alone { 1 } else { datagrams_max.min((BATCH_BYTES_MAX / usize::from(mtu)).max(1)) };
        let (before, in_flight) = (self.validation.before(&self.conn), self.shared.in_flight.load(Relaxed));
        let transmit = self.conn.poll_transmit(now, datagrams_max, buf);
        let consulted = self.shared.consulted.load(Relaxed);
        if consulted > 0 || transmit.is_none() {
            self.shared.window_open.store(false, Relaxed);
        }
        let Some(transmit) = transmit else {
            // See `controller`.
            self.waiting = match consulted {
                0 if self.waits_for_validation() => Waiting::ForWindow,
                0 => Waiting::Nothing,
                _ if self.shared.is_held() => Waiting::ForPacer,
                1 => Waiting::ForWindow,
                _ => Waiting::ForPacer,
            };
            if self.search.is_some() && self.waiting == Waiting::Nothing {
                self.look_for_search_end();
            }
            return None;
        };
        match consulted {
            0 => {
                if self.silence.on_exempt() {
                    self.on_probe(now, transmit.size);
                }
            }
            _ if asking || in_flight > 0 => {}
            _ => self.silence.on_sent(now),
        }
        if consulted > 0 {
            self.on_departed(now, rate, transmit.size);
        }
        // A probe of the path MTU: in flight, but the controller is not informed.
        if transmit.segment_size.is_none() && transmit.size > usize::from(mtu) {
            self.shared.in_flight.fetch_add(transmit.size as u64, Relaxed);
            self.shared.probing.store(transmit.size as u64, Relaxed);
            self.lost_probes = self.conn.stats().path.lost_plpmtud_probes;
        } else if let Some(before) = before {
            self.validation.after(&self.conn, before, transmit.destination);
        }
        let mut transmit = from_transmit(transmit, !may_fragment);
        if may_fragment {
            if self.opens_handshake(buf) {
                buf.resize(buf.len().max(mtu.into()), 0);
                transmit.size = buf.len();
            }
            self.on_fragmentable(now, transmit.size);
        }
        Some(transmit)
    }

    /// The congestion window as it stands.
    pub(crate) fn window(&self) -> Window {
        Window {
            cwnd: self.shared.cwnd.load(Relaxed) + self.shared.probing.load(Relaxed),
            in_flight: self.shared.in_flight.load(Relaxed),
            mtu: self.conn.current_mtu(),
            waiting: self.waiting,
            due: self.due,
        }
    }

    /// Sets whether the application, not the window, limits the sender: such acks must not open the window (RFC 9002
    /// §7.8). Only the feeding code knows.
    pub(crate) fn set_app_limited(&mut self, app_limited: bool) {
        self.shared.window_limited.store(!app_limited, Relaxed);
    }

    /// Counters of packets, frames and the path, with the window of the primary's controller.
    pub(crate) fn stats(&self) -> quinn_proto::ConnectionStats {
        let mut stats = self.conn.stats();
        stats.path.cwnd = self.shared.cwnd.load(Relaxed);
        stats
    }

    /// The congestion controller's numbers now.
    pub(crate) fn congestion_state(&self) -> Box<dyn Controller> {
        let controller = self.conn.congestion_state();
        let metrics = controller.metrics();
        Box::new(CongestionState {
            window: self.shared.cwnd.load(Relaxed),
            ssthresh: metrics.ssthresh,
            pacing_rate: metrics.pacing_rate,
            initial_window: controller.initial_window(),
        })
    }
}
