//! The shared part of each half of a stream.

use rc3_core::{self as core, ClosedStream, ConnectionError, StreamId, VarInt};

use crate::{
    connection_ref::ConnectionRef,
    error::{ReadError, ResetError, StoppedError, WriteError},
    state::{ConnectionState, State},
};

/// A stream of a connection.
#[derive(Debug, Clone)]
pub(crate) struct StreamRef {
    connection: ConnectionRef,
    id: StreamId,
    /// Opened or accepted before the handshake was complete.
    zero_rtt: bool,
}

/// Why a stream cannot be used.
#[derive(Debug)]
pub(crate) enum Unavailable {
    /// The endpoint's driver has ended.
    ConnectionLost(ConnectionError),
    /// The server does not know the stream, and another one may have its number now.
    ZeroRttRejected,
}

impl From<ConnectionError> for Unavailable {
    fn from(error: ConnectionError) -> Self {
        Self::ConnectionLost(error)
    }
}

macro_rules! from_unavailable {
    ($($error:ident),+) => {$(
        impl From<Unavailable> for $error {
            fn from(unavailable: Unavailable) -> Self {
                match unavailable {
                    Unavailable::ConnectionLost(error) => Self::ConnectionLost(error),
                    Unavailable::ZeroRttRejected => Self::ZeroRttRejected,
                }
            }
        }
    )+};
}

from_unavailable!(ReadError, ResetError, StoppedError, WriteError);

impl StreamRef {
    pub(crate) fn new(connection: ConnectionRef, id: StreamId, zero_rtt: bool) -> Self {
        Self { connection, id, zero_rtt }
    }

    pub(crate) fn connection(&self) -> &ConnectionRef {
        &self.connection
    }

    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    pub(crate) fn is_0rtt(&self) -> bool {
        self.zero_rtt
    }

    /// # Errors
    /// When the server has rejected 0-RTT, and the stream with it.
    fn check(&self, state: &ConnectionState) -> Result<(), Unavailable> {
        if self.zero_rtt && state.zero_rtt_rejected { Err(Unavailable::ZeroRttRejected) } else { Ok(()) }
    }

    /// See [`State::connection`].
    pub(crate) fn change_in<T>(
        &self,
        endpoint: &mut State,
        change: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, Unavailable> {
        endpoint.connection(self.connection.id(), |core, state| {
            self.check(state)?;
            Ok(change(core, state))
        })?
    }

    /// See [`State::writer`].
    pub(crate) fn write_in<T>(
        &self,
        endpoint: &mut State,
        write: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, Unavailable> {
        endpoint.writer(self.connection.id(), |core, state| {
            self.check(state)?;
            Ok(write(core, state))
        })?
    }

    /// See [`State::reader`].
    pub(crate) fn read_in<T>(
        &self,
        endpoint: &mut State,
        read: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, Unavailable> {
        endpoint.reader(self.connection.id(), |core, state| {
            self.check(state)?;
            Ok(read(core, state))
        })?
    }

    /// See [`State::peek`].
    pub(crate) fn peek<T>(
        &self,
        ask: impl FnOnce(&core::Connection, &ConnectionState) -> T,
    ) -> Result<T, Unavailable> {
        self.connection.peek(|core, state| {
            self.check(state)?;
            Ok(ask(core, state))
        })?
    }

    /// See [`ConnectionRef::change`].
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, Unavailable> {
        self.connection.shared().with(|endpoint| self.change_in(endpoint, change))
    }

    /// See [`ConnectionRef::command`].
    pub(crate) fn command<T>(
        &self,
        change: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, Unavailable> {
        self.connection.shared().with(|endpoint| {
            endpoint.wake_driver();
            self.change_in(endpoint, change)
        })
    }

    /// Like [`Self::command`], for finishing or stopping the stream.
    pub(crate) fn end<T>(
        &self,
        end: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, Unavailable> {
        self.connection.shared().with(|endpoint| {
            endpoint.wake_driver();
            self.write_in(endpoint, end)
        })
    }

    /// See [`ConnectionRef::read`].
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, Unavailable> {
        self.connection.shared().with(|endpoint| {
            let result = self.read_in(endpoint, read);
            endpoint.wake_driver_after_reader();
            result
        })
    }

    /// Abandons undelivered bytes; the peer receives `code`.
    ///
    /// # Errors
    /// When the stream was already reset, or finished and delivered.
    pub(crate) fn reset(&self, code: VarInt) -> Result<(), ClosedStream> {
        let reset = self.connection.shared().with(|endpoint| {
            let reset = self.change_in(endpoint, |core, state| {
                state.on_send_over(self.id);
                core.reset(self.id, code)
            });
            endpoint.wake_driver();
            // It may be the last that a graceful close waited for.
            endpoint.close_if_delivered(self.connection.id());
            reset
        });
        // Without a connection, or a stream that the server knows, there is nothing to abandon.
        reset.unwrap_or(Ok(()))
    }
}
