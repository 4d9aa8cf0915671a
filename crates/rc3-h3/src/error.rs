//! The transport's errors and numbers as those of h3.

use std::sync::Arc;

use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming, StreamId};
use rc3_net::{ConnectionError, ReadError, VarInt, WriteError};

use crate::guard::{Refused, Scope};

pub(crate) fn connection_error(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into_inner() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

pub(crate) fn connection_lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection_error(error) }
}

pub(crate) fn read_failed(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        ReadError::ConnectionLost(error) => connection_lost(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

pub(crate) fn write_failed(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        WriteError::ConnectionLost(error) => connection_lost(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

/// The stream or connection has been ended with the code already.
pub(crate) fn refused(reason: Refused) -> StreamErrorIncoming {
    match reason.scope {
        Scope::Stream => StreamErrorIncoming::Unknown(Box::new(reason)),
        Scope::Connection => StreamErrorIncoming::ConnectionErrorIncoming {
            connection_error: ConnectionErrorIncoming::Undefined(Arc::new(reason)),
        },
    }
}

/// Codes are below 2^62 on the wire (RFC 9000 §16).
pub(crate) fn var_int(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

pub(crate) fn stream_id(id: rc3_net::StreamId) -> StreamId {
    StreamId::try_from(u64::from(id)).expect("both are below 2^62")
}
