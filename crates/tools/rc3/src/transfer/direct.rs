//! UDP to a peer that may be behind a NAT: a port that is open before anything is known of the peer, and every address at
//! which it may answer. What both ends need to know of each other comes by ssh or through a rendezvous.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_net::{ClientConfig, Endpoint, ServerConfig};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    addresses::Race,
    callers::{CALLERS_MAX, watch},
    identity::Identity,
    meet::{COMMAND, Settings, connect_to, greet, hello, open, towards},
    message::ALPN,
    network::Network,
    reachable::{bind, unspecified},
    session::Control,
    ticket::{ADDRESSES_MAX, Trust},
};
use crate::error::{Error, Result};

/// Time for one of the addresses to answer.
pub(crate) const UDP_PATIENCE: Duration = Duration::from_secs(5);
/// The round trip as long as none is measured: a first packet is sent again after three of them (RFC 9002 §6.2), since a
/// NAT drops it that is not open yet.
pub(super) const RTT_GUESS: Duration = Duration::from_millis(100);
/// Time after which the next address is tried as well (RFC 8445 §14.2).
const PACE: Duration = Duration::from_millis(50);
/// Time that a relay leaves to the others, at least, for the tries at this pace. It leaves them half as long again as its
/// own answer took, too: their ways are shorter.
const RELAY_WAITS: Duration = Duration::from_millis(250);

/// A connection with the other end, which has shown the secret or seen it.
pub(crate) struct Met {
    pub(crate) endpoint: Endpoint,
    pub(crate) control: Control,
}

/// The port, and addresses of the peer that are found out.
pub(crate) struct Direct {
    pub(crate) endpoint: Endpoint,
    /// Takes addresses to try besides those that the peer names.
    pub(crate) found: mpsc::Sender<SocketAddr>,
    further: mpsc::Receiver<SocketAddr>,
    /// Ends when dropped.
    watching: JoinSet<()>,
}

/// The port cannot be opened.
pub(crate) fn failed(error: std::io::Error) -> Error {
    Error::local("open a UDP socket", error)
}

impl Direct {
    /// Opens the port, and begins to note callers.
    pub(crate) fn open(network: &Network) -> Result<Self> {
        let identity = Identity::generate()?;
        let config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN)?));
        let open = |at: SocketAddr| Endpoint::bind(network.options(at.ip(), None), Some(config.clone()), at);
        let endpoint = bind(None, 0, open).map_err(failed)?;
        let (found, further) = mpsc::channel(CALLERS_MAX + ADDRESSES_MAX);
        let mut watching = JoinSet::new();
        watching.spawn(watch(endpoint.clone(), found.clone()));
        Ok(Self { endpoint, found, further, watching })
    }

    /// Connects to the peer at the first address that answers: these in turn, and what is found besides at once; a relay
    /// at once too, but it waits a moment for the others.
    ///
    /// # Errors
    /// That which `silent` makes of the addresses if none answers in time. Any other host that answers is refused.
    pub(crate) async fn connect(
        mut self,
        addresses: &[SocketAddr],
        relay: Option<SocketAddr>,
        (fingerprint, secret): Trust,
        sends: bool,
        settings: &Settings,
        silent: impl FnOnce(&[SocketAddr]) -> Error,
    ) -> Result<Met> {
        let (tls, mut transport) = towards(fingerprint, sends, settings)?;
        transport.initial_rtt(RTT_GUESS);
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport));
        if let Some(relay) = relay {
            // If there is no room for it, there are others.
            let _ = self.found.try_send(relay);
        }
        let mut race = Race::with(addresses, self.further, PACE);
        let connect = |address| {
            let begun = endpoint_to(&self.endpoint, address, &settings.network)
                .map(|endpoint| (connect_to(&endpoint, address, COMMAND.to_owned(), &config), endpoint));
            let (at, is_relay) = (Instant::now(), relay == Some(address));
            async move {
                let (connecting, endpoint) = begun?;
                let connection = connecting.await?;
                if is_relay {
                    sleep(RELAY_WAITS.saturating_sub(at.elapsed()).max(at.elapsed() / 2)).await;
                }
                Ok((connection, endpoint))
            }
        };
        let answered = timeout(UDP_PATIENCE, race.run(connect)).await;
        self.watching.abort_all();
        let Ok(Ok((connection, endpoint))) = answered else { return Err(silent(&race.tried)) };
        // Nobody else is heard any more.
        let _ = endpoint.set_server_config(None);
        Ok(Met { control: greet(connection, &hello(secret)).await?, endpoint })
    }
}

/// The port that the peer knows; or a port with the marks that `rc3 check` found for this address, which UDP reaches then.
fn endpoint_to(known: &Endpoint, address: SocketAddr, network: &Network) -> Result<Endpoint> {
    let options = network.options(unspecified(address), Some(address));
    if options.marks == *known.marks() { Ok(known.clone()) } else { open(network, &[address]) }
}
