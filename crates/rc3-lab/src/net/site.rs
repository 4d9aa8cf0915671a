//! The network of a laboratory: sender, another sender, router and receiver, each a network namespace.
//!
//! ```text
//! sender --card--.                                   .--card-- receiver
//!                 router == wan-a [WAN] wan-b == router
//! other  --card--'
//! ```
//!
//! Lines are veth pairs. Both TUN devices of the WAN are in the router: what comes from senders goes to `wan-a`, what
//! comes from the receiver to `wan-b`, and what the WAN writes is forwarded to hosts.

use std::net::SocketAddr;

use super::{
    act::{Job, watch::Waits},
    error::NetError,
    namespace::Namespace,
    path::{Card, Path},
    process::Process,
    recipe::Recipe,
    scheme::{HostPair, PORT},
    wan::{
        config::{DEVICES, WanConfig},
        meddling::Meddling,
        run::WanReport,
    },
};

/// Address of the sender.
pub const SENDER: &str = "10.93.0.1";
/// Address of the other sender.
pub const OTHER: &str = "10.93.1.1";
/// Address of the receiver.
pub const RECEIVER: &str = "10.93.2.1";

/// Longest IP packet of all devices, in bytes.
const MTU: u16 = 1500;
/// Tables for what comes from senders, and from the receiver.
const TABLES: [u32; 2] = [100, 101];

/// Hosts and router. Everything goes with the value.
#[derive(Debug)]
pub struct Site {
    /// The sender under test.
    pub sender: Namespace,
    /// The sender of everybody else.
    pub other: Namespace,
    /// The router with the WAN.
    pub router: Namespace,
    /// The receiver.
    pub receiver: Namespace,
}

impl Site {
    /// Makes namespaces and what joins them, without a WAN.
    pub fn new() -> Result<Self, NetError> {
        let site = Self {
            sender: Namespace::new("sender")?,
            other: Namespace::new("other")?,
            router: Namespace::new("router")?,
            receiver: Namespace::new("receiver")?,
        };
        // A packet of the WAN comes from another device than its answer leaves by.
        let conf = "net.ipv4.conf";
        let unfiltered = ["all", "default"].map(|which| format!("{conf}.{which}.rp_filter=0"));
        site.router.sysctl(&["net.ipv4.ip_forward=1", &unfiltered[0], &unfiltered[1]])?;
        let hosts = [(&site.sender, TABLES[0]), (&site.other, TABLES[0]), (&site.receiver, TABLES[1])];
        for (nth, (host, table)) in hosts.into_iter().enumerate() {
            let (network, card) = (format!("10.93.{nth}"), format!("card-{nth}"));
            let router = (&site.router, card.as_str(), &*format!("{network}.2/24"));
            host.join("card", &format!("{network}.1/24"), router, MTU)?;
            host.ip(&format!("route add default via {network}.2"))?;
            site.router.ip(&format!("rule add iif {card} lookup {table}"))?;
            // Each flow is one to a host that was never seen before.
            host.sysctl(&["net.ipv4.tcp_no_metrics_save=1"])?;
        }
        Ok(site)
    }

    /// The sender under test and the receiver.
    pub fn place(&self) -> HostPair<'_> {
        HostPair { sender: &self.sender, receiver: &self.receiver, address: Self::address(PORT), mtu: None }
    }

    /// Where processes of the receiver listen.
    pub fn address(port: u16) -> SocketAddr {
        SocketAddr::new(RECEIVER.parse().expect("an address"), port)
    }

    /// Starts the WAN for a path, and gives the sender's interface what the path asks for.
    pub fn start_wan(&self, path: &Path, seed: u64) -> Result<Wan<'_>, NetError> {
        self.start_meddling_wan(path, seed, Meddling::default())
    }

    /// The same, where more happens to the packets of QUIC.
    pub fn start_meddling_wan(
        &self,
        path: &Path,
        seed: u64,
        meddling: Meddling,
    ) -> Result<Wan<'_>, NetError> {
        // There may be none.
        let _ = self.sender.shell("tc qdisc del dev card root");
        let _ = self.router.shell("nft flush ruleset");
        for host in [&self.sender, &self.other] {
            host.ip(&format!("link set card gso_max_segs {}", if path.offload { 64 } else { 1 }))?;
        }
        if path.card == Card::AsLink {
            Recipe::named("htb")?.run(&self.sender, "card", path.rate)?;
        }
        let config = WanConfig { netns: self.router.name().to_owned(), path: path.clone(), seed, meddling };
        let process = Process::urgent_job("WAN", &Job::Wan(config))?;
        for (device, table) in DEVICES.into_iter().zip(TABLES) {
            self.router.ip(&format!("link set {device} up"))?;
            self.router.ip(&format!("route replace default dev {device} table {table}"))?;
        }
        let mut wan = Wan { process, site: self, overflowed: 0, watch: None };
        if let Some(recipe) = &path.recipe {
            let [from, to] = [["card-0", "card-1"], DEVICES];
            Recipe::named(recipe)?.run(&self.router, to[0], path.rate)?;
            let job = Job::Watch(from.map(str::to_owned).to_vec(), to[0].to_owned());
            let watch = wan.watch.insert(Process::job("watch", &self.router, &job)?);
            watch.line()?;
        }
        Ok(wan)
    }

    /// Packets that a device dropped because the WAN did not read them in time.
    fn overflowed(&self) -> Result<u64, NetError> {
        DEVICES.into_iter().map(|device| self.router.sent(device, "dropped")).sum()
    }
}

/// A WAN that runs. It ends with the value.
#[derive(Debug)]
pub struct Wan<'a> {
    process: Process,
    site: &'a Site,
    /// Packets dropped in front of it up to the last report.
    overflowed: u64,
    /// Watches the queue of a recipe.
    watch: Option<Process>,
}

impl Wan<'_> {
    /// What it did since it was asked before; and packets that it did not read in time count as refused.
    pub fn report(&mut self) -> Result<WanReport, NetError> {
        self.process.ask("")?;
        let line = self.process.line()?;
        let mut report: WanReport = serde_json::from_str(&line)?;
        let overflowed = self.site.overflowed()?;
        report.refused += overflowed - std::mem::replace(&mut self.overflowed, overflowed);
        if let Some(watch) = &mut self.watch {
            watch.ask("")?;
            report.waits = serde_json::from_str::<Waits>(&watch.line()?)?;
        }
        Ok(report)
    }
}
