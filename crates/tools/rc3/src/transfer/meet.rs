//! How two ends meet: one listens with a secret, the other connects and shows it in [`Hello`]. Either may be the sender.

use std::{
    io,
    net::{IpAddr, SocketAddr, SocketAddrV6},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use rc3_net::{
    ClientConfig, Congestion, Connection, ConnectionError, Endpoint, RlpMode, ServerConfig, TransportConfig,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::BufReader,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    REFUSED, UNAUTHORISED, background, before_any_reply,
    identity::{Identity, SERVER_NAME, client},
    message::{ALPN, EARLY_FILES_MAX, FETCH_ALPN, FromReceiver, FromSender, Hello, VERSION},
    network::Network,
    newcomers::{Newcomers, Rejection},
    no_connection, not_connected,
    outage::patiently,
    reachable::{self, invite, route_to, zones},
    session::{Channel, Control},
    ticket::{ADDRESSES_MAX, Fingerprint, Secret, Ticket},
};
use crate::error::{Error, ErrorKind, Result};

/// Default time without progress after which a transfer fails, and for each message before its files.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The command that listens.
const COMMAND: &str = "rc3 recv";
/// Time for the handshake.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Time after which the next address of a host is tried as well (RFC 8305 §5).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// Time between two packets that ask a quiet peer for an acknowledgement: so an outage shows soon, and the mapping of a NAT
/// stays.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Time for the other side to let this one open the control stream.
const OPEN_PATIENCE: Duration = Duration::from_secs(20);
/// Time for the peer of a copy to connect.
const MEET_PATIENCE: Duration = Duration::from_secs(60);
/// Bound on the memory in bytes that all senders together can use, with and without a ticket, and on what they may still
/// send. A transfer writes its bytes on arrival; half of this allows it 1 Gbit/s x 400 ms in flight.
const MEMORY_MAX: u64 = 256 << 20;

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
            .max_idle_timeout(Some(self.network.idle_timeout()))
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

/// What one role says on the control stream.
pub(crate) trait Says: Serialize + DeserializeOwned + Send + 'static {
    /// Application protocol of a connection from this role.
    const ALPN: &'static [u8];
    /// Most streams that this role may open before its ticket was seen.
    const STREAMS_MAX: u32;
}

impl Says for FromSender {
    const ALPN: &'static [u8] = ALPN;
    const STREAMS_MAX: u32 = EARLY_FILES_MAX;
}

impl Says for FromReceiver {
    const ALPN: &'static [u8] = FETCH_ALPN;
    const STREAMS_MAX: u32 = 0;
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
    let connection = connect_to_any(endpoint, addresses, command, &config).await?;
    let opened = patiently(&connection, OPEN_PATIENCE, connection.open_bi()).await;
    let (send, recv) = opened.ok_or_else(|| Error::stalled(OPEN_PATIENCE))?.map_err(before_any_reply)?;
    let mut control = Control { connection, send, recv: BufReader::new(recv) };
    let said = control.say(hello).await;
    said.map_err(|error| control.connection.close_reason().map_or(error, before_any_reply))?;
    Ok(control)
}

/// Connects to one of these addresses.
async fn connect_to_any(
    endpoint: &Endpoint,
    addresses: &[SocketAddr],
    command: &str,
    config: &ClientConfig,
) -> Result<Connection> {
    let connect = |address| {
        let begun = endpoint.connect_with(config.clone(), address, SERVER_NAME);
        let command = command.to_owned();
        async move {
            let connecting = begun.map_err(|error| no_connection(address, &command, &error.to_string()))?;
            let connected = timeout(CONNECT_PATIENCE, connecting).await;
            let connected = connected.unwrap_or(Err(ConnectionError::TimedOut));
            connected.map_err(|error| not_connected(address, &command, error))
        }
    };
    race(addresses, connect).await
}

/// Tries the addresses in turn: the next one when one fails, or has not answered for a moment (RFC 8305 §5).
async fn race<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T> {
    let (mut untried, mut tries, mut failure) = (addresses.iter(), JoinSet::new(), None);
    loop {
        if let Some(&address) = untried.next() {
            let connecting = connect(address);
            tries.spawn(async move { connecting.await.map_err(|error| (address, error)) });
        }
        tokio::select! {
            Some(tried) = tries.join_next() => match tried.map_err(background)? {
                Ok(connection) => return Ok(connection),
                // What a host answers says more than the silence of another.
                Err(failed) => failure = failure.filter(|_| failed.1.kind() == ErrorKind::Connect).or(Some(failed)),
            },
            () = sleep(NEXT_ADDRESS_AFTER), if untried.len() > 0 => {}
            else => {
                let (at, error) = failure.ok_or_else(|| Error::lost("there is no address to connect to"))?;
                let others: Vec<_> = addresses.iter().copied().filter(|other| *other != at).collect();
                return Err(if error.kind() == ErrorKind::Connect { error.of_others(&others) } else { error });
            }
        }
    }
}

/// Connects to the listener of a ticket, and shows its secret.
pub(crate) async fn join<S: Says, R: Says>(
    endpoint: &Endpoint,
    addresses: &[SocketAddr],
    ticket: &Ticket,
    settings: &Settings,
) -> Result<Channel<S, R>> {
    let (tls, transport) = (client(ticket.fingerprint(), S::ALPN)?, settings.transport(R::STREAMS_MAX, 0)?);
    let hello = Hello { version: VERSION, secret: ticket.secret().0 };
    let control = connect(endpoint, addresses, COMMAND, tls, transport, &hello).await?;
    Ok(Channel::new(control, settings.patience))
}

/// An endpoint for connections to these addresses.
pub(crate) fn open(network: &Network, addresses: &[SocketAddr]) -> Result<Endpoint> {
    network.client(addresses).map_err(|error| Error::local("open a UDP socket", error))
}

/// The addresses of a ticket, in the order in which to try them.
pub(crate) async fn resolve(ticket: &Ticket) -> Result<Vec<SocketAddr>> {
    let (host, port) = (ticket.host(), ticket.port());
    let failed = |error: io::Error| {
        let hint = "check the host in the ticket; the receiver can set it with --advertise";
        Error::new(ErrorKind::Resolve, format!("cannot find {host}: {error}"), hint)
    };
    // The ticket of an attacker must not reach more than single hosts. Broadcasts need a permission of the socket.
    let is_one_host = |ip: &IpAddr| !ip.is_multicast() && !ip.is_unspecified() && !ip.is_loopback();
    let others = ticket.others().iter().map(IpAddr::to_canonical).filter(is_one_host);
    let others: Vec<_> = others.map(|ip| SocketAddr::new(ip, port)).collect();
    match lookup(host, port).await {
        Err(error) if others.is_empty() => Err(failed(error)),
        found => Ok(in_turn([found.unwrap_or_default(), others].concat(), &zones(), is_routed)),
    }
}

/// The addresses of a host, in the order in which to try them.
///
/// # Errors
/// When there is none.
pub(crate) async fn addresses_of(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(in_turn(lookup(host, port).await?, &zones(), is_routed))
}

async fn lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    if found.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) }
}

/// Whether this host can send to an address.
fn is_routed(address: &SocketAddr) -> bool {
    route_to(*address).is_some()
}

/// The order in which to try addresses: as given, but those without a route last, and the families take turns (RFC 8305
/// §4). A link-local address without a zone is tried in each of this host's `zones`.
fn in_turn(
    addresses: Vec<SocketAddr>,
    zones: &[u32],
    is_routed: impl Fn(&SocketAddr) -> bool,
) -> Vec<SocketAddr> {
    let mut zoned = Vec::new();
    for address in addresses {
        match address {
            SocketAddr::V6(v6)
                if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 && !zones.is_empty() =>
            {
                let zoned_in = |&zone| SocketAddrV6::new(*v6.ip(), v6.port(), 0, zone);
                zoned.extend(zones.iter().map(zoned_in).map(SocketAddr::from));
            }
            address => zoned.push(address),
        }
    }
    let first = zoned.iter().find(|address| is_routed(address)).is_none_or(SocketAddr::is_ipv4);
    let mut counts = [[0; 2]; 2];
    zoned.sort_by_cached_key(|address| {
        let (is_useless, is_other) = (!is_routed(address), address.is_ipv4() != first);
        let count = &mut counts[usize::from(is_useless)][usize::from(is_other)];
        *count += 1;
        (is_useless, *count, is_other)
    });
    zoned.truncate(ADDRESSES_MAX);
    zoned
}

/// A port for peers with a secret.
pub(crate) struct Listener {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) secret: Secret,
    patience: Duration,
}

impl Listener {
    /// Listens at `address` for a peer that says `R`; `None` is any address and port.
    pub(crate) fn open<R: Says>(
        (identity, secret): (Identity, Secret),
        settings: &Settings,
        address: Option<SocketAddr>,
    ) -> Result<Self> {
        let transport = settings.transport(R::STREAMS_MAX, 1)?;
        let mut config = ServerConfig::with_crypto(Arc::new(identity.server(R::ALPN)?));
        config.transport_config(Arc::new(transport));
        let endpoint = bind(&config, &identity, &settings.network, address)?;
        let found = endpoint.local_addr();
        let address = found.map_err(|error| Error::local("find the port", error))?;
        Ok(Self {
            endpoint,
            address,
            fingerprint: identity.fingerprint(),
            secret,
            patience: settings.patience,
        })
    }

    /// The ticket for peers, with the host and port to advertise if they differ.
    pub(crate) fn ticket(&self, advertise: Option<&(String, Option<u16>)>) -> Result<Ticket> {
        invite(self.address, advertise, self.fingerprint, self.secret)
            .map_err(|error| Error::local("make a ticket", error))
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
    pub(crate) async fn meet<S: Says, R: Says>(&self) -> Result<Channel<S, R>> {
        let mut newcomers = self.newcomers();
        let met = async {
            loop {
                if let Ok((control, _)) = newcomers.next().await {
                    return Channel::new(control, self.patience);
                }
            }
        };
        timeout(MEET_PATIENCE, met).await.map_err(|_| Error::stalled(MEET_PATIENCE))
    }
}

/// A listening endpoint of `identity` at this address.
pub(crate) fn listen(
    config: &ServerConfig,
    identity: &Identity,
    network: &Network,
    address: SocketAddr,
) -> io::Result<Endpoint> {
    let mut options = network.options(address.ip(), None);
    // Any free port is another after a restart.
    if address.port() != 0 {
        identity.reset_predecessor(address.port(), &mut options.protocol);
    }
    Endpoint::bind(options, Some(config.clone()), address)
}

/// A listening endpoint of `identity` with bounded memory.
pub(crate) fn bind(
    config: &ServerConfig,
    identity: &Identity,
    network: &Network,
    address: Option<SocketAddr>,
) -> Result<Endpoint> {
    let open = |address| listen(config, identity, network, address);
    let endpoint = reachable::bind(address, open).map_err(|error| {
        let at = address.map_or_else(|| "any address".to_owned(), |address| address.to_string());
        Error::local(format!("listen on {at}"), error)
    })?;
    endpoint.set_memory_max(MEMORY_MAX);
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns_and_addresses_without_a_route_come_last() {
        let given = addresses(&["[2001:db8::1]:9", "[2001:db8::2]:9", "192.0.2.1:9", "192.0.2.2:9"]);
        let all = in_turn(given.clone(), &[], |_| true);
        assert_eq!(all, [given[0], given[2], given[1], given[3]]);
        let of_ipv4 = in_turn(given.clone(), &[], SocketAddr::is_ipv4);
        assert_eq!(of_ipv4, [given[2], given[3], given[0], given[1]]);
        assert_eq!(in_turn(given[3..].to_vec(), &[], |_| false), given[3..]);
    }

    #[tokio::test]
    async fn further_addresses_of_a_ticket_are_single_hosts() {
        let others = ["224.0.0.1", "0.0.0.0", "127.0.0.1", "::1", "::ffff:127.0.0.1", "ff02::1", "192.0.2.2"];
        let ticket = Ticket::new("192.0.2.1", 9, Fingerprint([1; 32]), Secret([1; 16])).unwrap();
        let ticket = ticket.with_others(others.map(|ip| ip.parse().unwrap()));
        assert_eq!(resolve(&ticket).await.unwrap(), addresses(&["192.0.2.1:9", "192.0.2.2:9"]));
    }

    #[test]
    fn link_local_addresses_are_tried_in_each_zone_of_this_host() {
        let given = addresses(&["[fe80::1]:9", "[fe80::2%7]:9", "192.0.2.1:9"]);
        let tried = in_turn(given.clone(), &[2, 3], |_| true);
        assert_eq!(tried, addresses(&["[fe80::1%2]:9", "192.0.2.1:9", "[fe80::1%3]:9", "[fe80::2%7]:9"]));
        assert_eq!(in_turn(given[..1].to_vec(), &[], |_| true), given[..1]);
        let zones: Vec<_> = (1..100).collect();
        assert_eq!(in_turn(given, &zones, |_| true).len(), ADDRESSES_MAX);
    }

    /// In virtual time: one address is silent, another one refuses, and further ones answer.
    #[tokio::test(start_paused = true)]
    async fn a_silent_address_holds_up_the_next_for_a_moment_and_one_that_refuses_not_at_all() {
        let given = addresses(&["192.0.2.1:9", "192.0.2.2:9", "192.0.2.3:9"]);
        let kinds = |first: ErrorKind| {
            move |address: SocketAddr| async move {
                match address.ip().to_string().as_str() {
                    "192.0.2.1" if first == ErrorKind::Connect => std::future::pending().await,
                    "192.0.2.1" => Err(Error::new(first, "", "")),
                    _ => {
                        sleep(Duration::from_millis(80)).await;
                        Ok(address)
                    }
                }
            }
        };
        for (first, expected) in [(ErrorKind::Connect, 330), (ErrorKind::Refused, 80)] {
            let begun = tokio::time::Instant::now();
            assert_eq!(race(&given, kinds(first)).await.unwrap(), given[1]);
            assert_eq!(begun.elapsed().as_millis(), expected, "{first:?}");
        }
        let nobody = |address| async move { Err::<(), _>(no_connection(address, "rc3 recv", "no answer")) };
        let failed = race(&given, nobody).await.unwrap_err().to_string();
        assert!(given.iter().all(|address| failed.contains(&address.ip().to_string())), "{failed}");
    }
}
