//! What an application or operator may choose, the defaults, and the reason for each.

mod passed;
mod segment;

use std::{
    fmt,
    net::{SocketAddrV4, SocketAddrV6},
    sync::Arc,
    time::Duration,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{
    laws::{ladder::Ladder, window::WindowTuner},
    quic::{HandshakeTokenKey, IdleTimeout, TokenMemoryCache, TokenStore, ValidationTokenConfig, VarInt},
    seams::primary::quinn::{
        ClientCrypto, ClientTls, ServerCrypto, ServerTls, Sessions, Settings, random_token_key, ring_provider,
    },
    units::Rate,
    wire::control::INITIAL_CREDIT,
};

/// Whether and how the RLP loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RlpMode {
    /// RLP sends at the rate at which the path brings it, sends again what is lost, and leaves the queue alone unless the primary
    /// is seen to overtake RLP. See [`crate::laws::clock`] and [`crate::laws::guard`].
    #[default]
    Guard,
    /// The network is trusted to honour the marks (RC3 §2.1).
    Trust,
    /// No RLP at all, not even on offer: plain QUIC v1. With [`Congestion::KickAss`] rc3 is spoken all the same, since
    /// signals travel on its control stream, but no data is sent by RLP.
    Off,
}

/// The congestion controller of the primary loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Congestion {
    /// RFC 9002 §7, the papers' choice.
    NewReno,
    /// RFC 9438, what most of today's traffic uses.
    #[default]
    Cubic,
    /// BBR as quinn-proto 0.11 has it, for programs that ask for it by name. Not to be used where results count: the
    /// simulator and the tools do not offer it.
    ///
    /// It is not BBR: a rate sample is taken between two neighbouring acknowledgments, not over a round trip's delivery.
    /// On an idle path of 100 Mbit/s x 40 ms the window goes from 6 kB to 368 kB within two acknowledgments, 0.4 ms
    /// apart; simulated flows end 20 to 77 % before those of ns-3's BBR (docs/DECISIONS.md 85).
    Bbr,
    /// The rates that routers tell by the lengths of fragments (Kick-Ass §2.3), NewReno where they tell none.
    ///
    /// Packets may then be fragmented on their way, leave one by one, and look for no larger path MTU; see
    /// [`TransportConfig::initial_mtu`]. Where that loses them, the endpoint notices and forbids it.
    KickAss,
}

/// Windows grow up to this: two products of 1 Gbit/s and 400 ms, and a quarter more.
const WINDOW_MAX: u64 = 128 << 20;

/// Where the primary's receive window and the send window start: 1 Gbit/s x 30 ms, and slow start begins far below.
const WINDOW_INITIAL: u64 = 4 << 20;

/// Where the window for RLP data starts. It alone decides what RLP may fill in the first round trip, so it is
/// more than one product of 1 Gbit/s and 400 ms.
const RLP_WINDOW_INITIAL: u64 = 64 << 20;

/// What gaps may take beyond half of the bytes held: 16,000 of them, whatever lies between them.
const OVERHEAD_MAX: u64 = 4 << 20;

/// Settings of one connection, shared by many.
#[derive(Debug, Clone)]
pub struct TransportConfig {
    pub(crate) rlp: RlpMode,
    pub(crate) early_rlp: bool,
    pub(crate) verdict_age: Duration,
    pub(crate) ladder: Ladder,
    pub(crate) nic_rate: Option<Rate>,
    pub(crate) rlp_stream_window: u64,
    pub(crate) rlp_window: u64,
    pub(crate) overhead_max: u64,
    pub(crate) congestion: Congestion,
    pub(crate) initial_window: Option<u64>,
    pub(crate) initial_packets: Option<u32>,
    pub(crate) segment_size: Option<u16>,
    pub(crate) paced: bool,
    pub(crate) stream_receive_window: u32,
    pub(crate) receive_window: u32,
    pub(crate) send_window: u64,
    pub(crate) max_concurrent_bidi_streams: VarInt,
    pub(crate) max_concurrent_uni_streams: VarInt,
    pub(crate) max_idle_timeout: Option<IdleTimeout>,
    pub(crate) keep_alive_interval: Option<Duration>,
    pub(crate) initial_rtt: Duration,
    pub(crate) initial_mtu: u16,
    pub(crate) passed: Settings,
    #[cfg(feature = "qlog")]
    pub(crate) qlog: Option<crate::Qlog>,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            rlp: RlpMode::default(),
            early_rlp: true,
            // Routes and access networks change; to find out once more in ten minutes does little harm.
            verdict_age: Duration::from_secs(600),
            ladder: Ladder::default(),
            nic_rate: None,
            rlp_stream_window: WINDOW_MAX,
            rlp_window: WINDOW_MAX,
            overhead_max: OVERHEAD_MAX,
            congestion: Congestion::default(),
            initial_window: None,
            initial_packets: None,
            segment_size: None,
            paced: true,
            // One stream may have all of the connection's: it is that which starts small and grows.
            stream_receive_window: WINDOW_MAX as u32,
            receive_window: WINDOW_MAX as u32,
            send_window: WINDOW_MAX,
            // quinn-proto preallocates per stream it allows.
            max_concurrent_bidi_streams: VarInt::from_u32(100),
            max_concurrent_uni_streams: VarInt::from_u32(100),
            max_idle_timeout: Some(VarInt::from_u32(30_000).into()),
            keep_alive_interval: None,
            initial_rtt: Duration::from_millis(333),
            initial_mtu: 1200,
            passed: Settings::default(),
            #[cfg(feature = "qlog")]
            qlog: None,
        }
    }
}

impl TransportConfig {
    /// Whether and how the RLP loop runs. Default: [`RlpMode::Guard`].
    pub fn rlp(&mut self, mode: RlpMode) -> &mut Self {
        self.rlp = mode;
        self
    }

    /// Whether RLP carries 0-RTT data too, as far as the application sends any: of clients, whether it sends, of servers,
    /// whether it takes it. The first mebibyte may then be under way before the server has answered, at the rate that an
    /// earlier connection found. Default: yes.
    pub fn early_rlp(&mut self, allowed: bool) -> &mut Self {
        self.early_rlp = allowed;
        self
    }

    /// How long [`RlpMode::Guard`] believes what it has learned about a destination; then it tries again.
    /// Default: ten minutes; more than a year counts as a year.
    pub fn verdict_age(&mut self, age: Duration) -> &mut Self {
        self.verdict_age = age.min(Duration::from_secs(365 * 86_400));
        self
    }

    /// How many RLP packets ride on which level. Default: 40, 400, 4000, ... on seven levels (RC3 §2.1).
    pub fn ladder(&mut self, ladder: Ladder) -> &mut Self {
        self.ladder = ladder;
        self
    }

    /// The speed of the sender's network card. With it, RLP leaves at this rate less what the primary takes;
    /// without it, as fast as the socket accepts. Worth setting when the first queue is not on this host.
    pub fn nic_rate(&mut self, rate: Option<Rate>) -> &mut Self {
        self.nic_rate = rate;
        self
    }

    /// Bytes of one stream that the peer's RLP loop may send beyond what the application has read, at most.
    /// Never below [`INITIAL_CREDIT`], which a peer may use before it knows better. Default: 128 MiB.
    pub fn rlp_stream_window(&mut self, bytes: u64) -> &mut Self {
        self.rlp_stream_window = bytes.max(INITIAL_CREDIT);
        self
    }

    /// The same for all streams of a connection together: the bound on memory for RLP data. The window starts at
    /// 64 MiB, which RLP may fill in the first round trip, and grows while the application keeps up.
    /// Default: 128 MiB.
    pub fn rlp_window(&mut self, bytes: u64) -> &mut Self {
        self.rlp_window = bytes.max(INITIAL_CREDIT);
        self
    }

    /// Bytes of memory that a connection may take, in each direction, for the records of gaps and small pieces beyond
    /// half a byte for each byte it holds. RLP data and SACKs that need more are ignored: the primary brings that data.
    /// A primary whose own gaps need twice as much is at fault, and the connection ends. Default: 4 MiB.
    ///
    /// So what was received and not read takes at most twice [`Self::receive_window`] and [`Self::rlp_window`] together,
    /// and three times this.
    pub fn overhead_max(&mut self, bytes: u64) -> &mut Self {
        self.overhead_max = bytes;
        self
    }

    /// Congestion controller of the primary. Default: CUBIC.
    pub fn congestion(&mut self, congestion: Congestion) -> &mut Self {
        self.congestion = congestion;
        self
    }

    /// Initial congestion window in bytes; `None` is the controller's own default.
    ///
    /// A packet leaves while `in flight + mtu < window`, so four full packets want `4 * mtu + 1`.
    pub fn initial_window(&mut self, bytes: Option<u64>) -> &mut Self {
        self.initial_window = bytes;
        self
    }

    /// Whether the primary spreads a window over the round trip (default) or sends in bursts as the papers'
    /// TCP does.
    pub fn paced(&mut self, paced: bool) -> &mut Self {
        self.paced = paced;
        self
    }

    /// Bytes the peer's primary may send on one stream beyond what was read. Default: 128 MiB, as much as the whole
    /// connection.
    pub fn stream_receive_window(&mut self, bytes: u32) -> &mut Self {
        self.stream_receive_window = bytes;
        self
    }

    /// The same for the whole connection, at most: the window starts at 4 MiB and doubles whenever half of it was
    /// read within two round trips. Default: 128 MiB, enough for 1 Gbit/s x 400 ms.
    ///
    /// This and [`Self::rlp_window`] together bound what a connection holds of bytes that were received and not
    /// read, whatever the peer does.
    pub fn receive_window(&mut self, bytes: u32) -> &mut Self {
        self.receive_window = bytes;
        self
    }

    /// Bytes a connection holds for sending before writes wait, at most: it starts at 4 MiB and doubles whenever
    /// half of it was sent within two round trips. RLP can only send what is here. What the primary has sent and
    /// the peer has not acknowledged is bounded likewise, beside it. Default: 128 MiB.
    pub fn send_window(&mut self, bytes: u64) -> &mut Self {
        self.send_window = bytes;
        self
    }

    /// Bidirectional streams the peer may have open at once. Default 100.
    pub fn max_concurrent_bidi_streams(&mut self, count: VarInt) -> &mut Self {
        self.max_concurrent_bidi_streams = count;
        self
    }

    /// Unidirectional streams the peer may have open at once. Default 100.
    pub fn max_concurrent_uni_streams(&mut self, count: VarInt) -> &mut Self {
        self.max_concurrent_uni_streams = count;
        self
    }

    /// Silence after which a connection is given up. Default 30 s; `None`: never.
    pub fn max_idle_timeout(&mut self, timeout: Option<IdleTimeout>) -> &mut Self {
        self.max_idle_timeout = timeout;
        self
    }

    /// How often to send something on an otherwise silent connection. Default: never.
    pub fn keep_alive_interval(&mut self, interval: Option<Duration>) -> &mut Self {
        self.keep_alive_interval = interval;
        self
    }

    /// Round-trip time assumed before the first sample. Default 333 ms (RFC 9002 §6.2.2).
    pub fn initial_rtt(&mut self, rtt: Duration) -> &mut Self {
        self.initial_rtt = rtt;
        self
    }

    /// UDP payload in bytes that is assumed to pass. Default 1200 (RFC 9000 §14).
    pub fn initial_mtu(&mut self, bytes: u16) -> &mut Self {
        self.initial_mtu = bytes.max(1200);
        self
    }

    /// Where to log what happens on each connection, as qlog (docs/OBSERVABILITY.md). Default: nowhere.
    #[cfg(feature = "qlog")]
    pub fn qlog(&mut self, qlog: Option<crate::Qlog>) -> &mut Self {
        self.qlog = qlog;
        self
    }
}

impl TransportConfig {
    /// Whether rc3 is spoken with peers that do.
    pub(crate) fn speaks_rc3(&self) -> bool {
        self.rlp != RlpMode::Off || self.steered()
    }

    pub(crate) fn receive_tuner(&self) -> WindowTuner {
        WindowTuner::new(WINDOW_INITIAL, self.receive_window.into())
    }

    pub(crate) fn send_tuner(&self) -> WindowTuner {
        WindowTuner::new(WINDOW_INITIAL, self.send_window)
    }

    pub(crate) fn rlp_tuner(&self) -> WindowTuner {
        WindowTuner::new(RLP_WINDOW_INITIAL, self.rlp_window)
    }
}

/// What a client needs to connect. Clones share the sessions and tokens that servers have given.
#[derive(Clone)]
pub struct ClientConfig {
    pub(crate) crypto: ClientTls,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) token_store: Arc<dyn TokenStore>,
    pub(crate) sessions: Arc<Sessions>,
}

impl ClientConfig {
    /// TLS 1.3 settings with default transport settings.
    ///
    /// `alpn_protocols` of the rustls settings holds the application's own names; the rc3 variant of each is
    /// offered before it. With `enable_early_data`, sessions are remembered here and not in `resumption`.
    pub fn new(crypto: Arc<impl ClientCrypto>) -> Self {
        Self::over(ClientTls::Rustls(crypto.into_rustls()))
    }

    pub(crate) fn over(crypto: ClientTls) -> Self {
        Self {
            crypto,
            transport: Arc::default(),
            token_store: Arc::new(TokenMemoryCache::default()),
            sessions: Arc::default(),
        }
    }

    /// Trusts servers whose certificates lead to `roots`, names no application protocol, and allows 0-RTT.
    ///
    /// # Errors
    /// When `roots` is empty.
    pub fn with_root_certificates(
        roots: Arc<rustls::RootCertStore>,
    ) -> Result<Self, rustls::client::VerifierBuilderError> {
        let provider = ring_provider();
        let verifier =
            rustls::client::WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build()?;
        let mut crypto = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3")
            .with_webpki_verifier(verifier)
            .with_no_client_auth();
        crypto.enable_early_data = true;
        Ok(Self::new(Arc::new(crypto)))
    }

    /// Replaces the transport settings.
    pub fn transport_config(&mut self, transport: Arc<TransportConfig>) -> &mut Self {
        self.transport = transport;
        self
    }

    /// Where to keep the tokens by which servers recognise an address (RFC 9000 §8.1.3). Default: in memory.
    pub fn token_store(&mut self, store: Arc<dyn TokenStore>) -> &mut Self {
        self.token_store = store;
        self
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig").field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// What an endpoint needs to accept connections.
#[derive(Clone)]
pub struct ServerConfig {
    /// Settings of the connections it accepts.
    pub transport: Arc<TransportConfig>,
    pub(crate) crypto: ServerTls,
    pub(crate) token_key: Arc<dyn HandshakeTokenKey>,
    pub(crate) validation_token: ValidationTokenConfig,
    pub(crate) retry_token_lifetime: Duration,
    pub(crate) preferred_address_v4: Option<SocketAddrV4>,
    pub(crate) preferred_address_v6: Option<SocketAddrV6>,
    pub(crate) migration: bool,
    pub(crate) max_incoming: usize,
    pub(crate) retry_incoming_from: usize,
    pub(crate) incoming_buffer_size: u64,
    pub(crate) incoming_buffer_size_total: u64,
}

impl ServerConfig {
    /// TLS 1.3 settings with default transport settings; for ALPN see [`ClientConfig::new`].
    pub fn with_crypto(crypto: Arc<impl ServerCrypto>) -> Self {
        Self::over(ServerTls::Rustls(crypto.into_rustls()), random_token_key())
    }

    pub(crate) fn over(crypto: ServerTls, token_key: Arc<dyn HandshakeTokenKey>) -> Self {
        Self {
            transport: Arc::default(),
            crypto,
            token_key,
            validation_token: ValidationTokenConfig::default(),
            // As quinn: longer than any honest client takes to repeat its first packet.
            retry_token_lifetime: Duration::from_secs(15),
            preferred_address_v4: None,
            preferred_address_v6: None,
            migration: true,
            // Some 4 KB each: 16 MB at most wait for a server that does not get round to accepting.
            max_incoming: 4096,
            retry_incoming_from: 512,
            incoming_buffer_size: 1 << 20,
            incoming_buffer_size_total: 32 << 20,
        }
    }

    /// Shows this certificate chain, asks clients for none, names no application protocol, and allows 0-RTT.
    ///
    /// # Errors
    /// When the key does not fit the certificate or cannot be used.
    pub fn with_single_cert(
        cert_chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let mut crypto = rustls::ServerConfig::builder_with_provider(ring_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(cert_chain, key)?;
        crypto.max_early_data_size = u32::MAX;
        Ok(Self::with_crypto(Arc::new(crypto)))
    }

    /// Replaces the transport settings.
    pub fn transport_config(&mut self, transport: Arc<TransportConfig>) -> &mut Self {
        self.transport = transport;
        self
    }

    /// Whether clients may change their address. Default: yes.
    pub fn migration(&mut self, allowed: bool) -> &mut Self {
        self.migration = allowed;
        self
    }

    /// Handshakes that may wait for an answer at once; more are refused. Default 4096.
    pub fn max_incoming(&mut self, count: usize) -> &mut Self {
        self.max_incoming = count;
        self
    }

    /// While this many handshakes wait for an answer, each new one is asked by a Retry packet to show that it
    /// receives at its address (RFC 9000 §8.1.2), which costs it a round trip and us no memory. So a flood under
    /// made-up addresses takes this many places and no more. Default 512; 0 asks everybody.
    pub fn retry_incoming_from(&mut self, count: usize) -> &mut Self {
        self.retry_incoming_from = count;
        self
    }

    /// Bytes of datagrams kept for one handshake that waits for an answer. Default 1 MiB.
    pub fn incoming_buffer_size(&mut self, bytes: u64) -> &mut Self {
        self.incoming_buffer_size = bytes;
        self
    }

    /// The same for all of them together. Default 32 MiB.
    pub fn incoming_buffer_size_total(&mut self, bytes: u64) -> &mut Self {
        self.incoming_buffer_size_total = bytes;
        self
    }

    /// The key that seals tokens for clients. Default: a random one; servers that answer for each other share one.
    pub fn token_key(&mut self, key: Arc<dyn HandshakeTokenKey>) -> &mut Self {
        self.token_key = key;
        self
    }

    /// Tokens by which returning clients show their address (RFC 9000 §8.1.3).
    pub fn validation_token_config(&mut self, config: ValidationTokenConfig) -> &mut Self {
        self.validation_token = config;
        self
    }

    /// How long the token of a Retry packet is good. Default 15 s.
    pub fn retry_token_lifetime(&mut self, lifetime: Duration) -> &mut Self {
        self.retry_token_lifetime = lifetime;
        self
    }

    /// An IPv4 address clients are asked to move to after the handshake (RFC 9000 §9.6).
    pub fn preferred_address_v4(&mut self, address: Option<SocketAddrV4>) -> &mut Self {
        self.preferred_address_v4 = address;
        self
    }

    /// An IPv6 address clients are asked to move to after the handshake (RFC 9000 §9.6).
    pub fn preferred_address_v6(&mut self, address: Option<SocketAddrV6>) -> &mut Self {
        self.preferred_address_v6 = address;
        self
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig").field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// ALPN prefix of this version of the protocol; `rc3/1+NAME` is the application protocol `NAME` over rc3.
const ALPN: &[u8] = b"rc3/1";

/// The names to offer: the rc3 variant of each of the application's, then these themselves.
pub(crate) fn alpn_offer(application: &[Vec<u8>], rc3: bool) -> Vec<Vec<u8>> {
    if !rc3 {
        return application.to_vec();
    }
    if application.is_empty() {
        return vec![ALPN.to_vec()];
    }
    let rc3 = application.iter().map(|name| [ALPN, b"+", name].concat());
    rc3.chain(application.iter().cloned()).collect()
}

/// Splits a negotiated name into whether rc3 is spoken and the application's own name.
pub(crate) fn alpn_parse(negotiated: &[u8]) -> (bool, Option<&[u8]>) {
    match negotiated.strip_prefix(ALPN) {
        Some([]) => (true, None),
        Some([b'+', name @ ..]) => (true, Some(name)),
        _ => (false, Some(negotiated)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpn_puts_rc3_first_and_keeps_the_plain_names() {
        let offer = alpn_offer(&[b"h3".to_vec(), b"hq".to_vec()], true);
        assert_eq!(offer, [&b"rc3/1+h3"[..], b"rc3/1+hq", b"h3", b"hq"]);
        assert_eq!(alpn_parse(&offer[0]), (true, Some(&b"h3"[..])));
        assert_eq!(alpn_parse(b"h3"), (false, Some(&b"h3"[..])));
        assert_eq!(alpn_parse(b"rc3/1"), (true, None));
        assert_eq!(alpn_parse(b"rc3/10"), (false, Some(&b"rc3/10"[..])));
        assert_eq!(alpn_offer(&[b"h3".to_vec()], false), [b"h3"]);
    }
}
