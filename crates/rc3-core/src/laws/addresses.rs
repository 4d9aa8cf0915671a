//! Which address of the peer is validated, and how much others may be sent until they are (RFC 9000 §8.1, §9.3).
//!
//! A peer can forge the source address of each datagram. So an address that is not validated is sent at most three
//! times the bytes received from it, counting both loops and all else. The counts belong to an address as long as it is
//! among the last few: alternating between addresses gains nothing.
//!
//! quinn-proto enforces that limit except for one datagram per change of path, and not at all when it probes the path
//! MTU or answers a PATH_CHALLENGE. So it does not see datagrams of such an address before its longest answer is
//! allowed; until then a short datagram asks the peer for a long one. A peer without RLP cannot be asked: for its sake
//! another port of the validated address, possibly given by a NAT (RFC 4787), gets one answer now and then.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Bytes sent for each byte received (RFC 9000 §8.1).
const AMPLIFICATION_MAX: u64 = 3;

/// Addresses remembered without validation. A peer that uses more starts again with each, with no allowance.
const UNPROVEN_MAX: usize = 4;

/// How often an address is asked without an answer.
const ASKS_MAX: u32 = 3;

/// Time between two granted answers.
///
/// A NAT that rebinds sooner, and a client that has little to acknowledge, would end the connection: nothing else is sent
/// that proves the new port.
const GRANT_PAUSE: Duration = Duration::from_secs(3);

/// The addresses of one connection's peer, from the end of the handshake on.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// The last validated address.
    pub(crate) proven: SocketAddr,
    /// The address that sent last comes last.
    unproven: Vec<Unproven>,
    /// When the last answer was granted, to any port.
    granted_at: Option<Instant>,
}

#[derive(Debug)]
struct Unproven {
    remote: SocketAddr,
    received: u64,
    sent: u64,
    /// Granted bytes beyond those that follow from `received`.
    granted: u64,
    /// Requests since it last sent.
    asks: u32,
    /// When to ask again.
    ask_at: Option<Instant>,
}

impl Addresses {
    /// The handshake validated `remote`.
    pub(crate) fn new(remote: SocketAddr) -> Self {
        Self { proven: remote, unproven: Vec::new(), granted_at: None }
    }

    /// `remote` is validated.
    pub(crate) fn prove(&mut self, remote: SocketAddr) {
        *self = Self { granted_at: self.granted_at, ..Self::new(remote) };
    }

    /// `bytes` of UDP payload arrived from `remote`.
    pub(crate) fn on_received(&mut self, remote: SocketAddr, bytes: usize) {
        if remote == self.proven {
            return;
        }
        let known = self.unproven.iter().position(|unproven| unproven.remote == remote);
        let mut unproven = match known {
            Some(at) => self.unproven.remove(at),
            None => Unproven { remote, received: 0, sent: 0, granted: 0, asks: 0, ask_at: None },
        };
        unproven.received = unproven.received.saturating_add(bytes as u64);
        unproven.asks = 0;
        if self.unproven.len() == UNPROVEN_MAX {
            self.unproven.remove(0);
        }
        self.unproven.push(unproven);
    }

    /// Bytes of UDP payload that may be sent to `remote` now.
    pub(crate) fn allowance(&self, remote: SocketAddr) -> u64 {
        if remote == self.proven {
            return u64::MAX;
        }
        let unproven = self.unproven.iter().find(|unproven| unproven.remote == remote);
        unproven.map_or(0, Unproven::allowance)
    }

    /// `bytes` of UDP payload were sent to `remote`.
    pub(crate) fn on_sent(&mut self, remote: SocketAddr, bytes: usize) {
        if let Some(unproven) = self.unproven.iter_mut().find(|unproven| unproven.remote == remote) {
            unproven.sent += bytes as u64;
        }
    }

    /// The address to ask with a datagram of `bytes` now, and again at `again` unless something arrives: the one that
    /// sent last.
    pub(crate) fn ask(&mut self, again: Instant, bytes: usize) -> Option<SocketAddr> {
        let unproven = self.unproven.last_mut()?;
        let may = unproven.asks < ASKS_MAX && bytes as u64 <= unproven.allowance();
        unproven.ask_at = may.then_some(again);
        unproven.asks += u32::from(may);
        may.then_some(unproven.remote)
    }

    /// When to call [`Self::ask`] again.
    pub(crate) fn ask_at(&self) -> Option<Instant> {
        self.unproven.last()?.ask_at
    }

    /// Grants the address that sent last an answer of `bytes` if it is another port of the validated one, unless one
    /// was granted recently. Returns whether it did.
    pub(crate) fn grant(&mut self, now: Instant, bytes: u64) -> bool {
        let due = self.granted_at.is_none_or(|at| now >= at + GRANT_PAUSE);
        let host = self.proven.ip();
        let port = |unproven: &&mut Unproven| due && unproven.remote.ip() == host;
        let Some(unproven) = self.unproven.last_mut().filter(port) else { return false };
        unproven.granted += bytes;
        self.granted_at = Some(now);
        true
    }
}

impl Unproven {
    fn allowance(&self) -> u64 {
        self.received.saturating_mul(AMPLIFICATION_MAX).saturating_add(self.granted).saturating_sub(self.sent)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(nth: u8) -> SocketAddr {
        ([192, 0, 2, nth], 1).into()
    }

    #[test]
    fn a_proven_address_is_open_and_others_are_not() {
        let mut addresses = Addresses::new(host(0));
        assert_eq!((addresses.allowance(host(0)), addresses.allowance(host(1))), (u64::MAX, 0));
        addresses.on_received(host(1), 100);
        assert_eq!(addresses.allowance(host(1)), 300);
        addresses.prove(host(1));
        assert_eq!((addresses.allowance(host(0)), addresses.allowance(host(1))), (0, u64::MAX));
    }

    #[test]
    fn an_address_is_asked_a_few_times_and_anew_when_it_answers() {
        let now = Instant::now();
        let mut addresses = Addresses::new(host(0));
        assert_eq!(addresses.ask(now, 30), None, "no address to ask");
        addresses.on_received(host(1), 30);
        assert_eq!(addresses.ask(now, 91), None);
        for _ in 0..ASKS_MAX {
            assert_eq!(addresses.ask(now, 30), Some(host(1)));
            assert_eq!(addresses.ask_at(), Some(now));
        }
        assert_eq!((addresses.ask(now, 30), addresses.ask_at()), (None, None));
        addresses.on_received(host(1), 30);
        assert_eq!(addresses.ask(now, 30), Some(host(1)));
    }

    #[test]
    fn one_answer_is_granted_now_and_then_to_another_port() {
        let now = Instant::now();
        let port = |port| SocketAddr::from(([192, 0, 2, 0], port));
        let mut addresses = Addresses::new(port(1));
        addresses.on_received(host(1), 0);
        assert!(!addresses.grant(now, 1200), "a forged address");
        addresses.on_received(port(2), 0);
        assert!(addresses.grant(now, 1200));
        assert_eq!(addresses.allowance(port(2)), 1200);
        addresses.prove(port(2));
        addresses.on_received(port(3), 0);
        assert!(!addresses.grant(now + GRANT_PAUSE / 2, 1200));
        assert!(addresses.grant(now + GRANT_PAUSE, 1200));
    }

    proptest! {
        /// Whatever arrives from any address in any order: a sender that keeps to the allowance sends no address more
        /// than three times what came from it.
        #[test]
        fn nobody_is_sent_more_than_three_times_what_came(
            steps in prop::collection::vec((1..10_u8, 0..2000_usize, 0..5000_usize), 1..200),
        ) {
            let mut addresses = Addresses::new(host(0));
            let mut exchanged = [(0, 0); 10];
            for (nth, received, wanted) in steps {
                addresses.on_received(host(nth), received);
                let allowed = addresses.allowance(host(nth)).min(wanted as u64);
                addresses.on_sent(host(nth), allowed as usize);
                let (came, went) = &mut exchanged[usize::from(nth)];
                (*came, *went) = (*came + received as u64, *went + allowed);
                prop_assert!(*went <= 3 * *came);
            }
        }
    }
}
