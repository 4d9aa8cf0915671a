//! How two ends meet: one listens with a secret, the other connects and shows it in [`Hello`]. Either may be the sender.

use std::{
    io,
    net::{Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use rc3_net::{
    ClientConfig, Congestion, Connection, ConnectionError, Endpoint, RlpMode, ServerConfig, TransportConfig,
};
use serde::Serialize;
use tokio::{io::BufReader, time::timeout};

use super::{
    REFUSED, UNAUTHORISED,
    addresses::Race,
    before_any_reply,
    identity::{Identity, SERVER_NAME, client},
    message::{ALPN, EARLY_FILES_MAX, FETCH_ALPN, Hello, VERSION},
    network::Network,
    newcomers::{Newcomers, Rejection},
    no_connection, not_connected,
    outage::patiently,
    reachable::{self, invite},
    session::Control,
    ticket::{Fingerprint, Secret, Ticket, Trust},
};
use crate::error::{Error, Result};

/// Default time without progress after which a transfer fails, and for each message before its files.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The command that listens.
pub(crate) const COMMAND: &str = "rc3 recv";
/// Time for the handshake.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Time between two packets that ask a quiet peer for an acknowledgement: so an outage shows soon, and the mapping of a NAT
/// stays.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Time for the other side to let this one open the control stream.
const OPEN_PATIENCE: Duration = Duration::from_secs(20);
/// Time for the peer of a copy to connect.
const MEET_PATIENCE: Duration = Duration::from_secs(60);
/// Bound on the memory in bytes that all senders together can use, with and without a ticket, and on what they may still
/// send. A transfer writes its bytes on arrival; half of this allows it 1 Gbit/s x 400 ms in flight.
pub(crate) const MEMORY_MAX: u64 = 256 << 20;

/// Settings of the transport.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether RLP is allowed.
    pub rlp: RlpMode,
    /// Congestion control at normal priority.
    pub congestion: Congestion,
    /// The longest IP packet to try; `None` for the library's default.
    pub mtu: Option<u16>,
    /// Marks and memory of paths.
    pub network: Network,
    /// Directory for qlog files.
    pub qlog: Option<PathBuf>,
    /// Time without bytes or messages after which a sender fails; time that a receiver allows for each message before
    /// files. Outages do not count.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rlp: RlpMode::Guard,
            congestion: Congestion::default(),
            mtu: None,
            network: Network::default(),
            qlog: None,
            patience: PATIENCE,
        }
    }
}

impl Settings {
    /// Transport configuration of one side, on which the peer may open this many unidirectional and bidirectional streams.
    pub(crate) fn transport(&self, uni: u32, bidi: u32) -> Result<TransportConfig> {
        let mut config = TransportConfig::default();
        config
            .rlp(self.rlp)
            .congestion(self.congestion)
            .max_idle_timeout(self.network.give_up_after.try_into().ok())
            .keep_alive_interval(Some(ASK_EVERY))
            .max_concurrent_uni_streams(uni.into())
            .max_concurrent_bidi_streams(bidi.into());
        if let Some(mtu) = self.mtu {
            config.path_mtu_max(mtu);
        }
        let qlog = self.qlog.as_ref().map(rc3_net::qlog::directory).transpose();
        config.qlog(qlog.map_err(|error| Error::local("make the qlog directory", error))?);
        Ok(config)
    }
}

/// Application protocol of a connection from a side that sends or receives, and most streams that this side may open before
/// its ticket was seen.
fn role(sends: bool) -> (&'static [u8], u32) {
    if sends { (ALPN, EARLY_FILES_MAX) } else { (FETCH_ALPN, 0) }
}

/// Connects to the first of these addresses that answers, opens the control stream and writes the first message. `command`
/// is the one that should run on the other side.
///
/// Transfers, checks and tunnels meet in this way; the other side is [`Newcomers`].
///
/// # Errors
/// Of the kinds `Connect`, `Busy`, `Refused`, `Stalled` and `Lost`.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    addresses: &[SocketAddr],
    command: &str,
    tls: rustls::ClientConfig,
    transport: impl Into<Arc<TransportConfig>>,
    hello: &impl Serialize,
) -> Result<Control> {
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(transport.into());
    let connect = |address| connect_to(endpoint, address, command.to_owned(), &config);
    greet(Race::of(addresses).run(connect).await?, hello).await
}

/// Opens the control stream of a connection, and writes the first message.
pub(crate) async fn greet(connection: Connection, hello: &impl Serialize) -> Result<Control> {
    let opened = patiently(&connection, OPEN_PATIENCE, connection.open_bi()).await;
    let (send, recv) = opened.ok_or_else(|| Error::stalled(OPEN_PATIENCE))?.map_err(before_any_reply)?;
    let mut control = Control { connection, send, recv: BufReader::new(recv) };
    let said = control.say(hello).await;
    said.map_err(|error| control.connection.close_reason().map_or(error, before_any_reply))?;
    Ok(control)
}

/// Begins to connect to this address; the future ends with the connection, or a while after without an answer.
pub(crate) fn connect_to(
    endpoint: &Endpoint,
    address: SocketAddr,
    command: String,
    config: &ClientConfig,
) -> impl Future<Output = Result<Connection>> + Send + use<> {
    let begun = endpoint.connect_with(config.clone(), address, SERVER_NAME);
    async move {
        let connecting = begun.map_err(|error| no_connection(address, &command, &error.to_string()))?;
        let connected = timeout(CONNECT_PATIENCE, connecting).await;
        let connected = connected.unwrap_or(Err(ConnectionError::TimedOut));
        connected.map_err(|error| not_connected(address, &command, error))
    }
}

/// TLS and transport of a side that connects to the listener with this certificate, and sends or receives.
pub(crate) fn towards(
    fingerprint: Fingerprint,
    sends: bool,
    settings: &Settings,
) -> Result<(rustls::ClientConfig, TransportConfig)> {
    let ((alpn, _), (_, streams_max)) = (role(sends), role(!sends));
    Ok((client(Some(fingerprint), alpn)?, settings.transport(streams_max, 0)?))
}

/// The first message to a listener with this secret.
pub(crate) fn hello(secret: Secret) -> Hello {
    Hello { version: VERSION, secret: secret.0 }
}

/// Connects to the listener with this certificate, and shows its secret. This side sends or receives.
pub(crate) async fn join(
    sends: bool,
    endpoint: &Endpoint,
    addresses: &[SocketAddr],
    (fingerprint, secret): Trust,
    settings: &Settings,
) -> Result<Control> {
    let (tls, transport) = towards(fingerprint, sends, settings)?;
    connect(endpoint, addresses, COMMAND, tls, transport, &hello(secret)).await
}

/// An endpoint for connections to these addresses.
pub(crate) fn open(network: &Network, addresses: &[SocketAddr]) -> Result<Endpoint> {
    network.client(addresses).map_err(|error| Error::local("open a UDP socket", error))
}

/// A port for peers with a secret.
pub(crate) struct Listener {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) secret: Secret,
}

impl Listener {
    /// Listens at `address` for a peer that sends or receives; `None` is any address and port.
    pub(crate) fn open(
        peer_sends: bool,
        (identity, secret): &(Identity, Secret),
        settings: &Settings,
        address: Option<SocketAddr>,
    ) -> Result<Self> {
        let (alpn, streams_max) = role(peer_sends);
        let transport = settings.transport(streams_max, 1)?;
        let mut config = ServerConfig::with_crypto(Arc::new(identity.server(alpn)?));
        config.transport_config(Arc::new(transport));
        let endpoint = bind(&config, identity, &settings.network, address, 0, MEMORY_MAX)?;
        let found = endpoint.local_addr();
        let address = found.map_err(|error| Error::local("find the port", error))?;
        Ok(Self { endpoint, address, fingerprint: identity.fingerprint(), secret: *secret })
    }

    /// The ticket for peers, with the host and port to advertise if they differ.
    pub(crate) fn ticket(&self, advertise: Option<&(String, Option<u16>)>) -> Result<Ticket> {
        invite(self.address, advertise, self.fingerprint, self.secret)
    }

    /// The peers with the secret.
    pub(super) fn newcomers(&self) -> Newcomers<Hello> {
        let secret = self.secret;
        Newcomers::new(self.endpoint.clone(), move |_, hello: &Hello| {
            if hello.version != VERSION {
                let reason = format!("this side has version {VERSION}, the other {}", hello.version);
                Err(Rejection::new(REFUSED, reason))
            } else if Secret(hello.secret) != secret {
                Err(Rejection::new(UNAUTHORISED, "the secret of the ticket is wrong"))
            } else {
                Ok(())
            }
        })
    }

    /// The first peer with the secret.
    pub(crate) async fn meet(&self) -> Result<Control> {
        let mut newcomers = self.newcomers();
        let met = async {
            loop {
                if let Ok((control, _)) = newcomers.next().await {
                    return control;
                }
            }
        };
        timeout(MEET_PATIENCE, met).await.map_err(|_| Error::stalled(MEET_PATIENCE))
    }
}

/// A listening endpoint of `identity` with bounded memory; without an address at this port of any.
pub(crate) fn bind(
    config: &ServerConfig,
    identity: &Identity,
    network: &Network,
    address: Option<SocketAddr>,
    usual_port: u16,
    memory_max: u64,
) -> Result<Endpoint> {
    let open = |address: SocketAddr| {
        let mut options = network.options(address.ip(), None);
        // Any free port is another after a restart.
        if address.port() != 0 {
            identity.reset_predecessor(address.port(), &mut options.protocol);
        }
        Endpoint::bind(options, Some(config.clone()), address)
    };
    let usual = SocketAddr::from((Ipv6Addr::UNSPECIFIED, usual_port));
    let endpoint = reachable::bind(address, usual_port, open)
        .map_err(|error| not_listening(address.unwrap_or(usual), error))?;
    endpoint.set_memory_max(memory_max);
    Ok(endpoint)
}

/// This side cannot listen at an address.
pub(crate) fn not_listening(address: SocketAddr, error: io::Error) -> Error {
    let hint = "choose another address or port, or stop the program that uses it";
    Error::local(format!("listen on {address}"), error).hinted(hint)
}
