//! TLS sessions to resume, separated by the form of their streams: head records or plain bytes.
//!
//! 0-RTT data leaves before it is known whether the peer uses rc3, so it must have the form of the resumed session. A
//! server accepts it only if it chooses the same ALPN protocol again (RFC 8446 §4.2.10). rustls does not reveal the
//! protocol of a ticket, so there is one cache for each form.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    NamedGroup,
    client::{
        ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
    },
    pki_types::ServerName,
};

use super::remembered::for_early_data;
use crate::shows::shows;

/// Sessions stored for each form, eight per server: as many as rustls stores by default.
const SESSIONS_MAX: usize = 256;

/// Tickets of one connection that wait until its protocol is known; a server sends two or four.
const PENDING_MAX: usize = 8;

/// The sessions of all connections made with one client configuration.
pub(crate) struct Sessions {
    rc3: ClientSessionMemoryCache,
    plain: ClientSessionMemoryCache,
}

impl Sessions {
    fn of(&self, rc3: bool) -> &ClientSessionMemoryCache {
        if rc3 { &self.rc3 } else { &self.plain }
    }

    fn insert(&self, rc3: bool, server: ServerName<'static>, mut ticket: Tls13ClientSessionValue) {
        if let Some(params) = for_early_data(&ticket.quic_params()) {
            ticket.set_quic_params(&params);
        }
        self.of(rc3).insert_tls13_ticket(server, ticket);
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            rc3: ClientSessionMemoryCache::new(SESSIONS_MAX),
            plain: ClientSessionMemoryCache::new(SESSIONS_MAX),
        }
    }
}

/// One connection's access to the sessions.
pub(crate) struct ConnectionSessions {
    sessions: Arc<Sessions>,
    state: Mutex<SessionState>,
}

#[derive(Default)]
struct SessionState {
    /// Whether the resumed session used rc3, if any was resumed.
    resumed: Option<bool>,
    /// The server of that session.
    server: Option<ServerName<'static>>,
    /// Whether the connection uses rc3, once known.
    negotiated: Option<bool>,
    /// Tickets that arrived in the same datagram as the protocol.
    pending: Vec<(ServerName<'static>, Tls13ClientSessionValue)>,
}

impl ConnectionSessions {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions, state: Mutex::default() }
    }

    /// Whether the session being resumed used rc3; `None` if none is.
    pub(crate) fn resumed(&self) -> Option<bool> {
        self.with(|state| state.resumed)
    }

    /// The protocol is known: waiting and future tickets go to their cache.
    pub(crate) fn on_negotiated(&self, rc3: bool) {
        let pending = self.with(|state| {
            state.negotiated = Some(rc3);
            mem::take(&mut state.pending)
        });
        for (server, ticket) in pending {
            self.sessions.insert(rc3, server, ticket);
        }
    }

    /// The resumed session has broken the connection: other tickets of its server would do the same.
    pub(crate) fn forget_server(&self) {
        let Some(server) = self.with(|state| state.server.take()) else { return };
        for rc3 in [true, false] {
            while self.sessions.of(rc3).take_tls13_ticket(&server).is_some() {}
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut SessionState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

shows!(ConnectionSessions:);

impl ClientSessionStore for ConnectionSessions {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.sessions.rc3.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.rc3.kx_hint(server)
    }

    // QUIC is TLS 1.3 only (RFC 9001 §4.2).
    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let waiting = self.with(|state| match state.negotiated {
            Some(rc3) => Some((rc3, server, ticket)),
            None => {
                if state.pending.len() < PENDING_MAX {
                    state.pending.push((server, ticket));
                }
                None
            }
        });
        if let Some((rc3, server, ticket)) = waiting {
            self.sessions.insert(rc3, server, ticket);
        }
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // A server that no longer supports rc3 rejects the early data of the last rc3 sessions; then they are used up.
        [true, false].into_iter().find_map(|rc3| {
            let ticket = self.sessions.of(rc3).take_tls13_ticket(server)?;
            self.with(|state| (state.resumed, state.server) = (Some(rc3), Some(server.clone())));
            Some(ticket)
        })
    }
}
