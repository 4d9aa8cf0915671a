//! Named futures for opening and accepting streams.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use rc3_core::{ConnectionError, Dir, Side, StreamId};
use tokio::sync::{Notify, futures::Notified};

use crate::{
    connection_ref::ConnectionRef, recv_stream::RecvStream, send_stream::SendStream, state::Access,
    wake::poll_until,
};

macro_rules! future {
    ($(#[$doc:meta])* $name:ident -> $output:ty, |$connection:ident| $notify:expr, $attempt:expr, |$id:ident, $zero_rtt:ident| $streams:expr) => {
        pin_project! {
            $(#[$doc])*
            #[must_use = "futures do nothing unless polled"]
            #[derive(Debug)]
            pub struct $name<'a> {
                connection: &'a ConnectionRef,
                #[pin]
                notified: Notified<'a>,
            }
        }

        impl<'a> $name<'a> {
            pub(crate) fn new($connection: &'a ConnectionRef) -> Self {
                Self { notified: $notify.notified(), connection: $connection }
            }
        }

        impl Future for $name<'_> {
            type Output = Result<$output, ConnectionError>;

            fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                let this = self.project();
                let $connection: &ConnectionRef = this.connection;
                let attempt = || $attempt;
                poll_until(cx, $notify, this.notified, attempt).map_ok(|($id, $zero_rtt)| $streams)
            }
        }
    };
}

future! {
    /// What [`Connection::open_uni`](crate::Connection::open_uni) returns.
    OpenUni -> SendStream,
    |connection| available(connection, Dir::Uni),
    try_open(connection, Dir::Uni),
    |id, zero_rtt| SendStream::new(connection.clone(), id, zero_rtt)
}

future! {
    /// What [`Connection::open_bi`](crate::Connection::open_bi) returns.
    OpenBi -> (SendStream, RecvStream),
    |connection| available(connection, Dir::Bi),
    try_open(connection, Dir::Bi),
    |id, zero_rtt| both(connection, id, zero_rtt)
}

future! {
    /// What [`Connection::accept_uni`](crate::Connection::accept_uni) returns.
    AcceptUni -> RecvStream,
    |connection| opened(connection, Dir::Uni),
    try_accept(connection, Dir::Uni),
    |id, zero_rtt| RecvStream::new(connection.clone(), id, zero_rtt)
}

future! {
    /// What [`Connection::accept_bi`](crate::Connection::accept_bi) returns.
    AcceptBi -> (SendStream, RecvStream),
    |connection| opened(connection, Dir::Bi),
    try_accept(connection, Dir::Bi),
    |id, zero_rtt| both(connection, id, zero_rtt)
}

fn both(connection: &ConnectionRef, id: StreamId, zero_rtt: bool) -> (SendStream, RecvStream) {
    (SendStream::new(connection.clone(), id, zero_rtt), RecvStream::new(connection.clone(), id, zero_rtt))
}

fn available(connection: &ConnectionRef, dir: Dir) -> &Notify {
    &connection.waiters().available[dir as usize]
}

fn opened(connection: &ConnectionRef, dir: Dir) -> &Notify {
    &connection.waiters().opened[dir as usize]
}

type Attempt = Option<Result<(StreamId, bool), ConnectionError>>;

/// A new stream, and whether it is 0-RTT.
fn try_open(connection: &ConnectionRef, dir: Dir) -> Attempt {
    let opened = connection.access(Access::Write, |core, state| match &state.error {
        Some(error) => Some(Err(error.clone())),
        None => {
            let zero_rtt = core.side() == Side::Client && core.is_handshaking();
            core.open(dir).map(|id| Ok((id, zero_rtt)))
        }
    });
    opened.unwrap_or_else(|error| Some(Err(error)))
}

/// A stream of the peer, and whether it was opened before the handshake was complete.
fn try_accept(connection: &ConnectionRef, dir: Dir) -> Attempt {
    let accepted = connection.access(Access::Read, |core, state| match core.accept(dir) {
        Some(id) => Some(Ok((id, core.is_handshaking()))),
        None => state.error.clone().map(Err),
    });
    accepted.unwrap_or_else(|error| Some(Err(error)))
}
