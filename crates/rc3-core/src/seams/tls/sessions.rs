//! TLS sessions to resume, apart by what their streams carried: head records or plain bytes.
//!
//! 0-RTT data leaves before the peer says whether it speaks rc3, so it must be written in the form that the resumed
//! session had agreed on. A server accepts it only if it chooses the same ALPN protocol again (RFC 8446 §4.2.10).
//! rustls does not tell which protocol a ticket belongs to, so there is one cache for each form.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    NamedGroup,
    client::{
        ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
    },
    pki_types::ServerName,
};

/// Sessions remembered of each form, eight per server: as many as rustls remembers by default.
const SESSIONS_MAX: usize = 256;

/// Tickets of one connection that wait for its protocol to be known; a server sends two or four.
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
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            rc3: ClientSessionMemoryCache::new(SESSIONS_MAX),
            plain: ClientSessionMemoryCache::new(SESSIONS_MAX),
        }
    }
}

/// What one connection takes from the sessions and adds to them.
pub(crate) struct ConnectionSessions {
    sessions: Arc<Sessions>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the session taken was an rc3 one, if any was.
    resumed: Option<bool>,
    /// Whether the connection speaks rc3, once known.
    negotiated: Option<bool>,
    /// Tickets that came in the same datagram as the protocol.
    pending: Vec<(ServerName<'static>, Tls13ClientSessionValue)>,
}

impl ConnectionSessions {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions, state: Mutex::default() }
    }

    /// Whether the session being resumed spoke rc3; `None` if none is.
    pub(crate) fn resumed(&self) -> Option<bool> {
        self.with(|state| state.resumed)
    }

    /// The protocol is known: tickets that waited for it, and all that follow, go to their cache.
    pub(crate) fn on_negotiated(&self, rc3: bool) {
        let pending = self.with(|state| {
            state.negotiated = Some(rc3);
            mem::take(&mut state.pending)
        });
        for (server, ticket) in pending {
            self.sessions.of(rc3).insert_tls13_ticket(server, ticket);
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for ConnectionSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSessions").finish_non_exhaustive()
    }
}

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
            self.sessions.of(rc3).insert_tls13_ticket(server, ticket);
        }
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        // A server that has given up rc3 rejects the early data of the last rc3 sessions, and then they are gone.
        [true, false].into_iter().find_map(|rc3| {
            let ticket = self.sessions.of(rc3).take_tls13_ticket(server)?;
            self.with(|state| state.resumed = Some(rc3));
            Some(ticket)
        })
    }
}
