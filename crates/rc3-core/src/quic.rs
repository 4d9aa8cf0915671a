//! The words of QUIC that rc3 says itself: ids, codes, settings and errors, as quinn-proto has them. What quinn-proto does
//! is behind [`crate::seams::primary`].

pub use quinn_proto::{
    AckFrequencyConfig, ApplicationClose, ConnectError, ConnectionClose, ConnectionError, ConnectionHandle,
    ConnectionId, Dir, IdleTimeout, MtuDiscoveryConfig, NoneTokenStore, RttEstimator, Side, StreamId,
    TokenLog, TokenMemoryCache, TokenReuseError, TokenStore, TransportError, TransportErrorCode,
    ValidationTokenConfig, VarInt, VarIntBoundsExceeded, congestion, crypto::HandshakeTokenKey,
};
