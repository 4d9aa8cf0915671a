//! QUIC's types that rc3 uses itself: ids, codes, settings and errors of quinn-proto. Its behaviour is behind
//! [`crate::seams::primary`].

#[cfg(feature = "bloom")]
pub use quinn_proto::BloomTokenLog;
pub use quinn_proto::{
    AckFrequencyConfig, ApplicationClose, ConnectError, ConnectionClose, ConnectionError, ConnectionHandle,
    ConnectionId, ConnectionIdGenerator, Dir, EcnCodepoint, FinishError, FrameStats, FrameType,
    HashedConnectionIdGenerator, IdleTimeout, InvalidCid, MtuDiscoveryConfig, NoneTokenLog, NoneTokenStore,
    PathStats, RandomConnectionIdGenerator, RttEstimator, SendDatagramError, Side, StdSystemTime, StreamId,
    TimeSource, TokenLog, TokenMemoryCache, TokenReuseError, TokenStore, TransportError, TransportErrorCode,
    UdpStats, ValidationTokenConfig, VarInt, VarIntBoundsExceeded, WriteError, congestion,
    crypto::{AeadKey, CryptoError, HandshakeTokenKey, HmacKey, rustls::HandshakeData},
};
pub(crate) use quinn_proto::{
    ConnectionEvent, DEFAULT_SUPPORTED_VERSIONS as IMPLEMENTED_VERSIONS, Event as PrimaryEvent,
    ServerConfig as QuicServer, StreamEvent, TransportConfig as QuicTransport,
};
