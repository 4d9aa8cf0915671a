//! The shared part of each half of a stream.

use rc3_core::{self as core, ClosedStream, ConnectionError, StreamId, VarInt};

use crate::{
    connection_handle::Connection,
    error::{ReadError, ResetError, StoppedError, WriteError},
    state::{Access, ConnectionState, EndpointState},
};

/// A stream of a connection.
#[derive(Debug, Clone)]
pub(crate) struct StreamRef {
    pub(crate) connection: Connection,
    pub(crate) id: StreamId,
    /// Opened or accepted before the handshake was complete.
    pub(crate) zero_rtt: bool,
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
    /// Like [`Self::access`], with the lock held.
    #[inline]
    pub(crate) fn access_in<T>(
        &self,
        endpoint: &mut EndpointState,
        access: Access,
        with: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, Unavailable> {
        endpoint.access(self.connection.id(), access, |core, state| {
            // The server has rejected 0-RTT, and the stream with it.
            if self.zero_rtt && state.zero_rtt_rejected {
                return Err(Unavailable::ZeroRttRejected);
            }
            Ok(with(core, state))
        })?
    }

    /// See [`EndpointState::access`].
    pub(crate) fn access<T>(
        &self,
        access: Access,
        with: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, Unavailable> {
        self.connection.shared().with(|endpoint| self.access_in(endpoint, access, with))
    }

    /// Abandons undelivered bytes; the peer receives `code`.
    ///
    /// # Errors
    /// When the stream was already reset, or finished and delivered.
    pub(crate) fn reset(&self, code: VarInt) -> Result<(), ClosedStream> {
        let reset = self.connection.shared().with(|endpoint| {
            let reset = self.access_in(endpoint, Access::Command, |core, state| {
                state.on_send_over(self.id);
                core.reset(self.id, code)
            });
            // It may be the last that a graceful close waited for.
            endpoint.close_if_delivered(self.connection.id());
            reset
        });
        // Without a connection, or a stream that the server knows, there is nothing to abandon.
        reset.unwrap_or(Ok(()))
    }
}
