//! The near end's way by UDP: a port that is open before ssh starts, and every address at which the far end may answer.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rc3_net::{ClientConfig, Endpoint, ServerConfig};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

use super::{
    CopyJob, Met,
    callers::{CALLERS_MAX, watch},
    ssh,
    wire::UdpTerms,
};
use crate::{
    error::{Error, ErrorKind, Result},
    transfer::{
        addresses::{Race, single_hosts},
        identity::Identity,
        meet::{COMMAND, Settings, connect_to, greet, hello, open, towards},
        message::ALPN,
        network::Network,
        reachable::{beyond_link, bind, unspecified},
        ticket::Ticket,
    },
};

/// Time for one of the addresses to answer.
pub(super) const UDP_PATIENCE: Duration = Duration::from_secs(5);
/// The round trip as long as none is measured: a first packet is sent again after three of them (RFC 9002 §6.2), since a
/// NAT drops it that is not open yet.
pub(super) const RTT_GUESS: Duration = Duration::from_millis(100);
/// Time after which the next address is tried as well (RFC 8445 §14.2).
const PACE: Duration = Duration::from_millis(50);

/// The port, and what is found out about the far end while ssh logs in.
pub(super) struct Direct {
    endpoint: Endpoint,
    /// Addresses to try besides those that the far end names.
    further: mpsc::Receiver<SocketAddr>,
    /// Takes the port of the far end.
    port: oneshot::Sender<u16>,
    /// Ends when dropped.
    finding: JoinSet<()>,
}

fn failed(error: std::io::Error) -> Error {
    Error::local("open a UDP socket", error)
}

impl Direct {
    /// Opens the port, and begins to find addresses.
    pub(super) fn open(job: &CopyJob, network: &Network) -> Result<Self> {
        let identity = Identity::generate()?;
        let config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN)?));
        let open = |at: SocketAddr| Endpoint::bind(network.options(at.ip(), None), Some(config.clone()), at);
        let endpoint = bind(None, 0, open).map_err(failed)?;
        let (found, further) = mpsc::channel(CALLERS_MAX + ssh::ADDRESSES_MAX);
        let (port, known) = oneshot::channel();
        let mut finding = JoinSet::new();
        finding.spawn(watch(endpoint.clone(), found.clone()));
        let job = job.clone();
        finding.spawn(async move {
            let ips = ssh::addresses(&job).await;
            let Ok(port) = known.await else { return };
            for address in single_hosts(&ips, port) {
                let _ = found.send(address).await;
            }
        });
        Ok(Self { endpoint, further, port, finding })
    }

    /// What the far end needs to know, which listens at one of these ports.
    pub(super) fn terms(&self, ports: (u16, u16)) -> Result<UdpTerms> {
        let bound = self.endpoint.local_addr().map_err(failed)?;
        Ok(UdpTerms { ports, near_port: bound.port(), near: beyond_link(bound.ip()) })
    }

    /// Connects to the far end at the first address that answers: these in turn, and what is found besides at once.
    ///
    /// # Errors
    /// [`ErrorKind::NoUdp`] if none answers in time. Any other host that answers is refused.
    pub(super) async fn connect(
        mut self,
        addresses: &[SocketAddr],
        ticket: &Ticket,
        sends: bool,
        settings: &Settings,
        host: &str,
    ) -> Result<Met> {
        let (tls, mut transport) = towards(ticket.fingerprint(), sends, settings)?;
        transport.initial_rtt(RTT_GUESS);
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport));
        // The addresses of ssh's host may come later, or never.
        let _ = self.port.send(ticket.port());
        let mut race = Race::with(addresses, self.further, PACE);
        let connect = |address| {
            let begun = endpoint_to(&self.endpoint, address, &settings.network)
                .map(|endpoint| (connect_to(&endpoint, address, COMMAND.to_owned(), &config), endpoint));
            async move {
                let (connecting, endpoint) = begun?;
                Ok((connecting.await?, endpoint))
            }
        };
        let answered = timeout(UDP_PATIENCE, race.run(connect)).await;
        self.finding.abort_all();
        let Ok(Ok((connection, endpoint))) = answered else { return Err(no_udp(host, &race.tried)) };
        // Nobody else is heard any more.
        let _ = endpoint.set_server_config(None);
        Ok(Met { control: greet(connection, &hello(ticket.secret())).await?, endpoint })
    }
}

/// The port that the far end knows; or a port with the marks that `rc3 check` found for this address, which UDP reaches then.
fn endpoint_to(known: &Endpoint, address: SocketAddr, network: &Network) -> Result<Endpoint> {
    let options = network.options(unspecified(address), Some(address));
    if options.marks == *known.marks() { Ok(known.clone()) } else { open(network, &[address]) }
}

fn no_udp(host: &str, tried: &[SocketAddr]) -> Error {
    let tried: Vec<_> = tried.iter().map(ToString::to_string).collect();
    let tried = if tried.is_empty() {
        "no address is known".to_owned()
    } else {
        format!("tried {}", tried.join(", "))
    };
    Error::new(
        ErrorKind::NoUdp,
        format!("UDP does not reach {host} ({tried})"),
        "open a port there and pass it by --port, pass another --address, or leave out --via-ssh=never",
    )
}
