//! What the near end's way by UDP needs of ssh: the port of the near end goes with its command, and it knows addresses of
//! the far host.

use std::net::{IpAddr, SocketAddr};

use tokio::{sync::oneshot, task::JoinSet};

use super::{CopyJob, ssh, wire::UdpTerms};
use crate::{
    error::{Error, ErrorKind, Result},
    transfer::{
        addresses::single_hosts,
        direct::{Direct, Met, failed},
        meet::Settings,
        network::Network,
        reachable::beyond_link,
        ticket::Trust,
    },
};

/// The port, and what is found out about the far end while ssh logs in.
pub(super) struct NearPort {
    pub(super) direct: Direct,
    /// The addresses of the host that ssh connects to; ends when dropped.
    finding: JoinSet<Vec<IpAddr>>,
    /// As ssh takes it.
    host: String,
}

impl NearPort {
    /// Opens the port, and begins to find addresses.
    pub(super) fn open(job: &CopyJob, network: &Network) -> Result<Self> {
        let mut finding = JoinSet::new();
        let (job, host) = (job.clone(), job.host.clone());
        finding.spawn(async move { ssh::addresses(&job).await });
        Ok(Self { direct: Direct::open(network)?, finding, host })
    }

    /// What the far end needs to know, which listens at one of these ports.
    pub(super) fn terms(&self, ports: (u16, u16), maps_ports: bool) -> Result<UdpTerms> {
        let bound = self.direct.endpoint.local_addr().map_err(failed)?;
        Ok(UdpTerms { ports, near_port: bound.port(), near: beyond_link(bound.ip()), maps_ports })
    }

    /// Connects to the far end at the first address that answers: these in turn, and what is found besides at once, such as
    /// `mapped`.
    ///
    /// # Errors
    /// [`ErrorKind::NoUdp`] if none answers in time. Any other host that answers is refused.
    pub(super) async fn connect(
        mut self,
        addresses: &[SocketAddr],
        mapped: oneshot::Receiver<SocketAddr>,
        port: u16,
        trust: Trust,
        sends: bool,
        settings: &Settings,
    ) -> Result<Met> {
        let found = self.direct.found.clone();
        // These addresses may come later, or never.
        let of_ssh = async {
            if let Some(Ok(ips)) = self.finding.join_next().await {
                for address in single_hosts(&ips, port) {
                    let _ = found.send(address).await;
                }
            }
        };
        let of_gateway = async {
            if let Ok(address) = mapped.await {
                let _ = found.send(address).await;
            }
        };
        let finding = async {
            tokio::join!(of_ssh, of_gateway);
            std::future::pending().await
        };
        let silent = |tried: &[SocketAddr]| no_udp(&self.host, tried);
        tokio::select! {
            met = self.direct.connect(addresses, None, trust, sends, settings, silent) => met,
            never = finding => never,
        }
    }
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
        "open a port there and pass it by --port, pass another --address, or leave out --via-ssh=never and --background",
    )
}
