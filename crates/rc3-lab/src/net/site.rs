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

use std::{net::SocketAddr, path::PathBuf};

use rc3_core::units::Rate;
use rc3_text::units::rate_text;
use serde_json::Value;

use super::{
    error::NetError,
    namespace::Namespace,
    path::{Card, Path},
    process::Process,
    scheme::{PORT, Place},
    urgency,
    wan::{
        config::{LinkSpec, WanConfig},
        report::WanReport,
    },
};

/// Address of the sender under test.
pub const SENDER: &str = "10.93.0.1";
/// Address of the sender of everybody else.
pub const OTHER: &str = "10.93.1.1";
/// Address of the receiver.
pub const RECEIVER: &str = "10.93.2.1";

/// Longest IP packet of all devices, in bytes.
const MTU: u16 = 1500;
/// Devices of the WAN.
const DEVICES: [&str; 2] = ["wan-a", "wan-b"];
/// Tables for what comes from senders, and from the receiver.
const TABLES: [&str; 2] = ["100", "101"];

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
    ///
    /// # Errors
    /// If a tool fails.
    pub fn new() -> Result<Self, NetError> {
        let site = Self {
            sender: Namespace::new("sender")?,
            other: Namespace::new("other")?,
            router: Namespace::new("router")?,
            receiver: Namespace::new("receiver")?,
        };
        // A packet of the WAN comes from another device than its answer leaves by.
        for setting in
            ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"]
        {
            site.router.sysctl(setting)?;
        }
        let hosts = [
            (&site.sender, "card-s", SENDER),
            (&site.other, "card-o", OTHER),
            (&site.receiver, "card-r", RECEIVER),
        ];
        for (host, card, address) in hosts {
            site.join(host, card, address)?;
            // Each flow is one to a host that was never seen before.
            host.sysctl("net.ipv4.tcp_no_metrics_save=1")?;
        }
        for (card, table) in [("card-s", TABLES[0]), ("card-o", TABLES[0]), ("card-r", TABLES[1])] {
            site.router.ip(["rule", "add", "iif", card, "lookup", table])?;
        }
        Ok(site)
    }

    /// The sender under test and the receiver.
    pub fn place(&self) -> Place<'_> {
        let address = SocketAddr::new(RECEIVER.parse().expect("an address"), PORT);
        Place { sender: &self.sender, receiver: &self.receiver, address, mtu: None }
    }

    /// Joins a host to the router.
    fn join(&self, host: &Namespace, card: &str, address: &str) -> Result<(), NetError> {
        let gateway = format!("{}2", address.strip_suffix('1').unwrap_or(address));
        host.ip(["link", "add", "card", "type", "veth", "peer", "name", card, "netns", self.router.name()])?;
        for (namespace, device, address) in [(host, "card", address), (&self.router, card, &gateway)] {
            namespace.set_up(device, &format!("{address}/24"), MTU)?;
        }
        host.ip(["route", "add", "default", "via", &gateway]).map(drop)
    }

    /// Gives the sender's interface what the path asks for.
    ///
    /// # Errors
    /// If a tool fails.
    pub fn set_card(&self, path: &Path) -> Result<(), NetError> {
        // There may be none.
        let _ = self.sender.tc("qdisc del dev card root");
        let segments = if path.offload { "64" } else { "1" };
        self.sender.ip(["link", "set", "card", "gso_max_segs", segments])?;
        match path.card {
            Card::Fast => Ok(()),
            Card::AsLink => {
                card_commands(path.rate).iter().try_for_each(|words| self.sender.tc(words).map(drop))
            }
        }
    }

    /// Starts the WAN for a path.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn start_wan(&self, path: &Path, seed: u64, timeline: Option<PathBuf>) -> Result<Wan<'_>, NetError> {
        let config = WanConfig {
            netns: self.router.name().to_owned(),
            devices: DEVICES.map(str::to_owned),
            links: LinkSpec::both(path, seed),
            timeline,
        };
        let config = serde_json::to_string(&config)?;
        let mut command = urgency::first()?;
        command.args(["net", "wan", &config]);
        let process = Process::start("WAN", command)?;
        process.line()?;
        for (device, table) in DEVICES.into_iter().zip(TABLES) {
            self.router.ip(["link", "set", device, "up"])?;
            self.router.ip(["route", "replace", "default", "dev", device, "table", table])?;
        }
        Ok(Wan { process, site: self, overflowed: 0 })
    }

    /// Packets that a device dropped because the WAN did not read them in time.
    fn overflowed(&self) -> Result<u64, NetError> {
        let mut sum = 0;
        for device in DEVICES {
            let text = self.router.ip(["-s", "-j", "link", "show", "dev", device])?;
            let value: Value = serde_json::from_str(&text)?;
            sum += value[0]["stats64"]["tx"]["dropped"].as_u64().unwrap_or(0);
        }
        Ok(sum)
    }
}

/// HTB at a rate: everything but lower effort first, which borrows what the former leaves.
fn card_commands(rate: Rate) -> Vec<String> {
    let rate = rate_text(rate.bits_per_second());
    let mut commands = vec![
        "qdisc add dev card root handle 1: htb default 10".to_owned(),
        format!(
            "class add dev card parent 1: classid 1:1 htb rate {rate} ceil {rate} burst 4500 cburst 4500 quantum 1600"
        ),
    ];
    for (class, priority) in [("1:10", 0), ("1:20", 1)] {
        commands.push(format!(
            "class add dev card parent 1:1 classid {class} htb rate 8kbit ceil {rate} prio {priority} quantum 1600 burst 1600 cburst 16k"
        ));
        commands.push(format!("qdisc add dev card parent {class} pfifo limit 1000"));
    }
    commands
        .push("filter add dev card parent 1: protocol ip u32 match ip tos 0x04 0xfc flowid 1:20".to_owned());
    commands
}

/// A WAN that runs. It ends with the value.
#[derive(Debug)]
pub struct Wan<'a> {
    process: Process,
    site: &'a Site,
    /// Packets dropped in front of it up to the last report.
    overflowed: u64,
}

impl Wan<'_> {
    /// What it did since it was asked before; and packets that it did not read in time count as refused.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn report(&mut self) -> Result<WanReport, NetError> {
        self.process.ask("")?;
        let line = self.process.line()?;
        let mut report: WanReport = serde_json::from_str(&line)?;
        let overflowed = self.site.overflowed()?;
        report.refused += overflowed - std::mem::replace(&mut self.overflowed, overflowed);
        Ok(report)
    }

    /// Ends it, so that it writes its timeline.
    ///
    /// # Errors
    /// If it fails.
    pub fn finish(self) -> Result<(), NetError> {
        self.process.finish()
    }
}
