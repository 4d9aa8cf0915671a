//! Handshakes that peers begin: which are handed out to the application, and its answers.

use std::{ops::AddAssign, sync::Arc, time::Instant};

use super::{Endpoint, EndpointEvent};
use crate::{
    config::ServerConfig,
    laws::pool::Pool,
    machines::connection::{Connection, secrets::RlpSecrets},
    quic::{ConnectionError, ConnectionHandle},
    seams::{
        keys::{Aead, protection::Protection},
        primary::quinn::{Accepting, Bounds, Incoming},
        tls::ConfigError,
    },
    transmit::Transmit,
};

/// Most queued answers to datagrams of no connection. Unanswered peers ask again; a flood of such datagrams must not
/// cost memory, nor stop connections from sending.
const RESPONSES_MAX: usize = 1024;

/// Counters of the handshakes that peers began, including those decided by [`ServerConfig::max_incoming`] and
/// [`ServerConfig::retry_incoming_from`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct IncomingStats {
    /// Handshakes that wait for an answer now: handed out by [`EndpointEvent::Incoming`] and neither accepted,
    /// refused, retried nor ignored.
    pub waiting: usize,
    /// First packets of handshakes answered with a Retry packet: twice for a client whose ClientHello takes two, as one with
    /// post-quantum keys does.
    pub retried: u64,
    /// First packets of handshakes refused, likewise.
    pub refused: u64,
    /// Datagrams of no connection left without an answer, because too many answers waited to be sent.
    pub unanswered: u64,
}

impl AddAssign for IncomingStats {
    fn add_assign(&mut self, other: Self) {
        self.waiting += other.waiting;
        self.retried += other.retried;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
    }
}

/// Counts the waiting handshakes, and decides by their number.
#[derive(Debug)]
pub(super) struct Admission {
    pub(super) stats: IncomingStats,
    /// The numbers of waiting handshakes from which new ones get a Retry, or are refused.
    retry_from: usize,
    refuse_from: usize,
    /// Endpoints on one port count together.
    pool: Arc<Pool>,
}

impl Admission {
    pub(super) fn new(server: Option<&ServerConfig>, pool: Arc<Pool>) -> Self {
        let mut admission = Self { stats: IncomingStats::default(), retry_from: 0, refuse_from: 0, pool };
        admission.set_server(server);
        admission
    }

    pub(super) fn set_server(&mut self, server: Option<&ServerConfig>) {
        self.retry_from = server.map_or(0, |server| server.retry_incoming_from);
        self.refuse_from = server.map_or(0, |server| server.max_incoming);
    }

    /// A handshake waits for an answer; returns how many others do.
    fn add_waiting(&mut self) -> usize {
        self.stats.waiting += 1;
        self.pool.add_waiting()
    }

    /// A handshake was answered.
    fn remove_waiting(&mut self) {
        self.stats.waiting -= 1;
        self.pool.remove_waiting();
    }
}

impl Endpoint {
    /// Hands a handshake out; while many wait, it requires a token first, or refuses.
    pub(super) fn hand_out(&mut self, incoming: Incoming) {
        let others = self.admission.add_waiting();
        if others >= self.admission.refuse_from {
            return self.refuse(incoming);
        }
        let retried = if others >= self.admission.retry_from { self.retry(incoming) } else { Err(incoming) };
        if let Err(incoming) = retried {
            self.events.push_back(EndpointEvent::Incoming(incoming));
        }
    }

    /// Accepts a handshake.
    ///
    /// # Errors
    /// [`ConnectionError::TransportError`] if its first packet is malformed, [`ConnectionError::CidsExhausted`] if no
    /// connection ids are left.
    pub fn accept(&mut self, now: Instant, incoming: Incoming) -> Result<ConnectionHandle, ConnectionError> {
        self.accept_as(now, incoming, None)
    }

    /// As [`Self::accept`], with `config` in place of the endpoint's settings.
    ///
    /// # Errors
    /// Outer: [`ConfigError`] if QUIC cannot use the TLS settings, with the handshake, which still waits for an
    /// answer. Inner: as [`Self::accept`].
    pub fn accept_with(
        &mut self,
        now: Instant,
        incoming: Incoming,
        config: &ServerConfig,
    ) -> Result<Result<ConnectionHandle, ConnectionError>, (ConfigError, Incoming)> {
        match Accepting::new(config) {
            Ok(accepting) => Ok(self.accept_as(now, incoming, Some(&accepting))),
            Err(error) => Err((error, incoming)),
        }
    }

    fn accept_as(
        &mut self,
        now: Instant,
        incoming: Incoming,
        with: Option<&Accepting>,
    ) -> Result<ConnectionHandle, ConnectionError> {
        self.admission.remove_waiting();
        let mut response = Vec::new();
        let accepting = with.or(self.quic.server.as_ref());
        let (config, protection): (_, &dyn Protection) = match accepting {
            Some(accepting) => (accepting.transport.clone(), accepting.protection),
            None => (Arc::default(), &Aead),
        };
        let (leading_len, remote) = (incoming.leading_len, incoming.remote_address());
        let bounds = Bounds { carried: incoming.len, ..self.bounds(now, remote) };
        match self.quic.accept(now, incoming, with, bounds, &mut response) {
            Ok((handle, primary)) => {
                let secrets = RlpSecrets { protection, receipts: self.secrets.next() };
                let mut connection = Connection::new(primary, config, bounds.credit, secrets);
                // A signal in the first flight: the client knows the rate after one round trip.
                if let Some(len) = leading_len {
                    connection.on_leading(len);
                }
                self.add(now, handle, connection);
                Ok(handle)
            }
            Err(failed) => {
                self.receivers.give_up_handshake(remote);
                let (cause, answer) = *failed;
                if let Some(transmit) = answer {
                    self.respond(transmit, response);
                }
                Err(cause)
            }
        }
    }

    /// Refuses a handshake; the peer receives `CONNECTION_REFUSED` (RFC 9000 §20.1).
    pub fn refuse(&mut self, incoming: Incoming) {
        self.admission.remove_waiting();
        self.admission.stats.refused += 1;
        self.receivers.give_up_handshake(incoming.remote_address());
        let mut response = Vec::new();
        let transmit = self.quic.refuse(incoming, &mut response);
        self.respond(transmit, response);
    }

    /// Answers with a Retry packet: the client must start again with a token, which validates its address (RFC 9000
    /// §8.1.2).
    ///
    /// # Errors
    /// Returns the handshake if the client already has a token. Accept, refuse or ignore it.
    pub fn retry(&mut self, incoming: Incoming) -> Result<(), Incoming> {
        let mut response = Vec::new();
        let remote = incoming.remote_address();
        let transmit = self.quic.retry(incoming, &mut response)?;
        self.receivers.give_up_handshake(remote);
        self.admission.remove_waiting();
        self.admission.stats.retried += 1;
        self.respond(transmit, response);
        Ok(())
    }

    /// Drops a handshake without an answer.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.admission.remove_waiting();
        self.receivers.give_up_handshake(incoming.remote_address());
        self.quic.ignore(incoming);
    }

    /// Counters of the handshakes that peers began.
    pub fn incoming_stats(&self) -> IncomingStats {
        self.admission.stats
    }

    /// Queues an answer to a datagram of no connection.
    pub(super) fn respond(&mut self, transmit: Transmit, mut response: Vec<u8>) {
        if self.responses.len() == RESPONSES_MAX {
            self.admission.stats.unanswered += 1;
            return;
        }
        response.truncate(transmit.size);
        self.responses.push_back((transmit, response));
    }
}
