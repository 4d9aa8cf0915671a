//! Named futures for opening and accepting streams.

use rc3_core::{ConnectionError, Dir, Side, StreamId};
use tokio::sync::Notify;

use crate::{
    connection_handle::Connection, named_future::named_future, recv_stream::RecvStream,
    send_stream::SendStream, state::Access,
};

named_future! {
    /// What [`Connection::open_uni`](crate::Connection::open_uni) returns.
    OpenUni() -> Result<SendStream, ConnectionError>,
    |connection| available(connection, Dir::Uni),
    try_open(connection, Dir::Uni, SendStream::new)
}

named_future! {
    /// What [`Connection::open_bi`](crate::Connection::open_bi) returns.
    OpenBi() -> Result<(SendStream, RecvStream), ConnectionError>,
    |connection| available(connection, Dir::Bi),
    try_open(connection, Dir::Bi, both)
}

named_future! {
    /// What [`Connection::accept_uni`](crate::Connection::accept_uni) returns.
    AcceptUni() -> Result<RecvStream, ConnectionError>,
    |connection| opened(connection, Dir::Uni),
    try_accept(connection, Dir::Uni, RecvStream::new)
}

named_future! {
    /// What [`Connection::accept_bi`](crate::Connection::accept_bi) returns.
    AcceptBi() -> Result<(SendStream, RecvStream), ConnectionError>,
    |connection| opened(connection, Dir::Bi),
    try_accept(connection, Dir::Bi, both)
}

fn both(connection: Connection, id: StreamId, zero_rtt: bool) -> (SendStream, RecvStream) {
    (SendStream::new(connection.clone(), id, zero_rtt), RecvStream::new(connection, id, zero_rtt))
}

fn available(connection: &Connection, dir: Dir) -> &Notify {
    &connection.waiters().available[dir as usize]
}

fn opened(connection: &Connection, dir: Dir) -> &Notify {
    &connection.waiters().opened[dir as usize]
}

/// A new stream, made by `new`, which also receives whether it is 0-RTT.
fn try_open<S>(
    connection: &Connection,
    dir: Dir,
    new: impl FnOnce(Connection, StreamId, bool) -> S,
) -> Option<Result<S, ConnectionError>> {
    let opened = connection.access(Access::Write, |core, state| match &state.error {
        Some(error) => Some(Err(error.clone())),
        None => {
            let zero_rtt = core.side() == Side::Client && core.is_handshaking();
            core.open(dir).map(|id| Ok((id, zero_rtt)))
        }
    });
    let opened = opened.unwrap_or_else(|error| Some(Err(error)))?;
    Some(opened.map(|(id, zero_rtt)| new(connection.clone(), id, zero_rtt)))
}

/// A stream of the peer, made by `new`, which also receives whether it was opened before the handshake was complete.
fn try_accept<S>(
    connection: &Connection,
    dir: Dir,
    new: impl FnOnce(Connection, StreamId, bool) -> S,
) -> Option<Result<S, ConnectionError>> {
    let accepted = connection.access(Access::Read, |core, state| match core.accept(dir) {
        Some(id) => Some(Ok((id, core.is_handshaking()))),
        None => state.error.clone().map(Err),
    });
    let accepted = accepted.unwrap_or_else(|error| Some(Err(error)))?;
    Some(accepted.map(|(id, zero_rtt)| new(connection.clone(), id, zero_rtt)))
}
