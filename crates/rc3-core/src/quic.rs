//! QUIC's types that rc3 uses itself: ids, codes, settings and errors of quinn-proto. Its behaviour is behind
//! [`crate::seams::primary`].

pub use quinn_proto::{
    AckFrequencyConfig, ApplicationClose, ConnectError, ConnectionClose, ConnectionError, ConnectionHandle,
    ConnectionId, Dir, IdleTimeout, MtuDiscoveryConfig, NoneTokenStore, RttEstimator, Side, StreamId,
    TokenLog, TokenMemoryCache, TokenReuseError, TokenStore, TransportError, TransportErrorCode,
    ValidationTokenConfig, VarInt, VarIntBoundsExceeded, congestion, crypto::HandshakeTokenKey,
};
