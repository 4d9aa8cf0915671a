//! The configuration file in TOML: the ports and their parameters.
//!
//! A file becomes a [`Config`] only if it is valid as a whole; errors name the line and the key.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ipnet::IpNet;
use kickass::{
    Rate,
    queue::Levels,
    rcp::RcpConfig,
    sampling::Sampling,
    signal::{self, Ipv6},
    silence::SilenceRule,
};
use rc3_text::{
    document::{Document, DocumentError, Fault},
    units::{deserialize_time, parse_rate, parse_size},
};
use serde::{Deserialize, Deserializer, de::Error};

/// Why a configuration file cannot be used.
pub type ConfigError = DocumentError;

/// Longest name of a device, in bytes (`IFNAMSIZ` without the end).
const NAME_MAX: usize = 15;
/// Shortest MTU of a link: IPv4 (RFC 791 §3.2).
const MTU_MIN: u16 = 68;
/// The same for IPv6 (RFC 8200 §5).
const MTU_MIN_IPV6: u16 = 1280;
/// Most bytes in a delay line: more is a typing error.
const LINE_MAX: f64 = 1e9;
/// Longest time to wait for further segments. A link catches up on ten times as much, so its pace does not suffer.
const COALESCE_MAX: Duration = Duration::from_millis(1);
/// Most flows in a table, likewise.
const FLOWS_MAX: usize = 1 << 22;
/// Why a running forwarder keeps its configuration.
const NEEDS_RESTART: &str = "changing this key needs a restart";

/// The configuration of a forwarder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Keys for all ports.
    #[serde(default)]
    pub forward: ForwardConfig,
    /// Its ports.
    #[serde(default)]
    pub port: Vec<PortConfig>,
}

/// Keys for all ports.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ForwardConfig {
    /// The user to become once everything is open: `nobody` if started by root.
    pub user: Option<String>,
    /// The group to become: the user's.
    pub group: Option<String>,
    /// Addresses of the forwarder, the sources of its ICMP messages: at most one per version of IP. Without one it
    /// sends no messages of that version.
    pub addresses: Vec<IpAddr>,
    /// How often to print statistics: never.
    #[serde(deserialize_with = "time")]
    pub statistics: Option<Duration>,
    /// Where to serve metrics: nowhere.
    pub prometheus: Option<SocketAddr>,
    /// Whether hosts leave segmentation and checksums to the devices: yes.
    pub offload: bool,
    /// Longest time that a packet waits for the next ones of its super-packet, to be written with them: 50 us.
    #[serde(deserialize_with = "deserialize_time")]
    pub coalesce: Duration,
}

impl Default for ForwardConfig {
    fn default() -> Self {
        Self {
            user: None,
            group: None,
            addresses: Vec::new(),
            statistics: None,
            prometheus: None,
            offload: true,
            coalesce: Duration::from_micros(50),
        }
    }
}

/// A port: a TUN device, and the link behind it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PortConfig {
    /// The device. If it does not exist, the forwarder creates it and removes it at the end.
    pub name: String,
    /// The network namespace of the device, as named by `ip netns`: the forwarder's own.
    #[serde(default)]
    pub netns: Option<String>,
    /// Addresses of the host behind the port, set on the device: at most one of IPv4.
    #[serde(default)]
    pub addresses: Vec<IpNet>,
    /// Destinations reached through the port. The longest matching prefix of all ports decides.
    #[serde(default)]
    pub routes: Vec<IpNet>,
    /// Longest packet, with its IP header: 1500.
    #[serde(default = "mtu_default")]
    pub mtu: u16,
    /// Rate at which packets leave through the port, IP headers included.
    #[serde(deserialize_with = "required_rate")]
    pub rate: Rate,
    /// One-way delay after the queue: none.
    #[serde(default, deserialize_with = "deserialize_time")]
    pub delay: Duration,
    /// Buffer in bytes: 100 ms at the rate.
    #[serde(default, deserialize_with = "size")]
    pub buffer: Option<u64>,
    /// The queue discipline.
    #[serde(default)]
    pub queue: QueueConfig,
    /// Signals: none.
    #[serde(default)]
    pub kickass: Option<SignalConfig>,
}

/// Queue disciplines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum QueueConfig {
    /// First in, first out.
    #[default]
    DropTail,
    /// Levels by code point, with push-out.
    StrictPriority {
        /// Levels of code points, in addition to [`Levels::ladder`].
        #[serde(default)]
        levels: BTreeMap<String, u8>,
    },
    /// FQ-CoDel.
    FqCodel {
        /// Whether to mark instead of dropping: yes.
        #[serde(default = "yes")]
        ecn: bool,
        /// Target queueing delay of CoDel: 5 ms.
        #[serde(default, deserialize_with = "time")]
        target: Option<Duration>,
        /// Interval of CoDel, about the longest round trip: 100 ms.
        #[serde(default, deserialize_with = "time")]
        interval: Option<Duration>,
    },
}

/// Signals of a port.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SignalConfig {
    /// Whether the port signals.
    pub on: bool,
    /// A fixed rate instead of RCP's.
    #[serde(deserialize_with = "rate")]
    pub fixed: Option<Rate>,
    /// Parameters of RCP, except its floor.
    pub rcp: RcpConfig,
    /// Fraction of the buffer above which signalling may stop: 0.5.
    pub queue_threshold: f64,
    /// Round trips below the threshold until signals return: 8.
    pub queue_resume: u32,
    /// When signalling stops above the threshold.
    pub silence: SilenceRule,
    /// How often to signal.
    pub sampling: Sampling,
    /// Which IPv6 packets may carry signals.
    pub ipv6: Ipv6,
}

impl Default for SignalConfig {
    fn default() -> Self {
        let signal::SignalConfig { queue_threshold, queue_resume, silence, sampling, ipv6 } =
            Default::default();
        let rcp = RcpConfig::default();
        Self { on: true, fixed: None, rcp, queue_threshold, queue_resume, silence, sampling, ipv6 }
    }
}

impl Config {
    /// Reads a file; `file` is its name in errors.
    ///
    /// # Errors
    /// If the file is not TOML, a key is unknown or missing, or a value is invalid.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let document = Document::parse(text, file)?;
        let config: Self = document.read()?;
        config.check().map_err(|fault| document.error(fault))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), Fault> {
        let ForwardConfig { statistics, coalesce, addresses, .. } = &self.forward;
        let problem = "a forwarder needs at least two ports, write two or more [[port]]";
        Fault::unless(self.port.len() >= 2, "port", problem)?;
        let is_periodic = statistics.is_none_or(|every| !every.is_zero());
        Fault::unless(is_periodic, "forward.statistics", "the interval must be above zero")?;
        Fault::unless(*coalesce <= COALESCE_MAX, "forward.coalesce", "at most 1ms")?;
        let of_ipv4 = addresses.iter().filter(|address| address.is_ipv4()).count();
        let are_few = of_ipv4 <= 1 && addresses.len() - of_ipv4 <= 1;
        Fault::unless(are_few, "forward.addresses", "at most one address per version of IP")?;
        for (n, port) in self.port.iter().enumerate() {
            let key = |name: &str| format!("port.{n}.{name}");
            let others = &self.port[..n];
            // Also in another namespace: statistics have no other name.
            let is_same = |other: &PortConfig| other.name == port.name;
            let problem = format_args!("another port is named `{}`", port.name);
            Fault::unless(!others.iter().any(is_same), key("name"), problem)?;
            let mut taken = others.iter().flat_map(|other| &other.routes).map(IpNet::trunc);
            let is_taken = |route: &&IpNet| taken.any(|other| other == route.trunc());
            if let Some(route) = port.routes.iter().find(is_taken) {
                return Err(Fault::new(key("routes"), format!("another port has the route {route}")));
            }
            port.check().map_err(|fault| Fault { key: key(&fault.key), ..fault })?;
        }
        Ok(())
    }

    /// Why a running forwarder needs a restart to change to another configuration.
    ///
    /// # Errors
    /// The key that cannot change while running.
    pub fn check_reload(&self, new: &Self) -> Result<(), Fault> {
        let (old, fresh) = (&self.forward, &new.forward);
        let devices = |config: &Self| -> Vec<_> {
            config.port.iter().map(|port| (port.name.clone(), port.netns.clone())).collect()
        };
        for (key, is_same) in [
            ("forward.user", old.user == fresh.user),
            ("forward.group", old.group == fresh.group),
            ("forward.prometheus", old.prometheus == fresh.prometheus),
            ("forward.offload", old.offload == fresh.offload),
            ("port", devices(self) == devices(new)),
        ] {
            Fault::unless(is_same, key, NEEDS_RESTART)?;
        }
        for (n, (old, fresh)) in self.port.iter().zip(&new.port).enumerate() {
            Fault::unless(old.addresses == fresh.addresses, format!("port.{n}.addresses"), NEEDS_RESTART)?;
            Fault::unless(old.mtu == fresh.mtu, format!("port.{n}.mtu"), NEEDS_RESTART)?;
        }
        Ok(())
    }
}

impl PortConfig {
    /// The buffer in bytes.
    pub fn buffer(&self) -> u64 {
        self.buffer.unwrap_or_else(|| (self.rate.bytes_per_second() * 0.1) as u64).max(self.mtu.into())
    }

    fn check(&self) -> Result<(), Fault> {
        let name = &self.name;
        let is_special = |char: char| char == '/' || char == '%' || char.is_whitespace();
        let is_name = (1..=NAME_MAX).contains(&name.len()) && !name.contains(is_special);
        Fault::unless(is_name, "name", format_args!("`{name}` is not a valid device name"))?;
        let is_name = self.netns.as_deref().is_none_or(|name| !name.is_empty() && !name.contains('/'));
        Fault::unless(is_name, "netns", "not a valid name for ip netns")?;
        let of_ipv4 = self.addresses.iter().filter(|net| net.addr().is_ipv4()).count();
        Fault::unless(of_ipv4 <= 1, "addresses", "at most one IPv4 address")?;
        let ipv6 = self.addresses.iter().chain(&self.routes).any(|net| net.addr().is_ipv6());
        let mtu_min = if ipv6 { MTU_MIN_IPV6 } else { MTU_MIN };
        Fault::unless(self.mtu >= mtu_min, "mtu", format_args!("at least {mtu_min} bytes"))?;
        let is_line = self.rate.bytes_per_second() * self.delay.as_secs_f64() <= LINE_MAX;
        Fault::unless(is_line, "delay", "rate times delay exceeds one gigabyte, lower one of them")?;
        let is_buffer = self.buffer.is_none_or(|bytes| bytes >= self.mtu.into());
        Fault::unless(is_buffer, "buffer", "smaller than one packet of the MTU")?;
        if let QueueConfig::StrictPriority { levels } = &self.queue {
            read_levels(levels)?;
        }
        if let Some(signals) = &self.kickass {
            signals.check().map_err(|fault| Fault { key: format!("kickass.{}", fault.key), ..fault })?;
        }
        Ok(())
    }
}

impl QueueConfig {
    /// Levels by code point, if the discipline has levels.
    pub fn levels(&self) -> Option<Levels> {
        match self {
            Self::StrictPriority { levels } => read_levels(levels).ok(),
            Self::DropTail | Self::FqCodel { .. } => None,
        }
    }
}

fn read_levels(table: &BTreeMap<String, u8>) -> Result<Levels, Fault> {
    let mut levels = Levels::ladder();
    for (name, &level) in table {
        let fault = |message: String| Fault::new(format!("queue.levels.{name}"), message);
        let dscp = name.parse().ok().filter(|dscp| *dscp < 64);
        let dscp = dscp.ok_or_else(|| fault("not a code point from 0 to 63".to_owned()))?;
        if usize::from(level) >= Levels::COUNT {
            return Err(fault(format!("levels go from 0, the best, to {}", Levels::COUNT - 1)));
        }
        levels = levels.with(dscp, level);
    }
    Ok(levels)
}

impl SignalConfig {
    /// The configuration for [`kickass::router`].
    pub fn signals(&self) -> signal::SignalConfig {
        let Self { queue_threshold, queue_resume, silence, sampling, ipv6, .. } = *self;
        signal::SignalConfig { queue_threshold, queue_resume, silence, sampling, ipv6 }
    }

    /// The parameters for [`kickass::rcp::RcpLaw`].
    pub fn rcp(&self) -> RcpConfig {
        RcpConfig { floor: RcpConfig::for_codes().floor, ..self.rcp.clone() }
    }

    fn check(&self) -> Result<(), Fault> {
        let is_one = self.fixed.is_none() || self.rcp == RcpConfig::default();
        Fault::unless(is_one, "fixed", "set either a fixed rate or RCP, not both")?;
        let is_fraction = (0.0..=1.0).contains(&self.queue_threshold);
        Fault::unless(is_fraction, "queue-threshold", "must be a fraction of the buffer, 0 to 1")?;
        let is_table = !matches!(self.sampling, Sampling::Flows(table) if table == 0 || table > FLOWS_MAX);
        Fault::unless(is_table, "sampling", format_args!("the table must hold 1 to {FLOWS_MAX} flows"))?;
        self.rcp.check().map_err(|(name, problem)| Fault::new(format!("rcp.{name}"), problem))
    }
}

fn yes() -> bool {
    true
}

fn mtu_default() -> u16 {
    1500
}

fn required_rate<'de, D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
    parse_rate(&String::deserialize(from)?).map(Rate::from).map_err(Error::custom)
}

fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Rate>, D::Error> {
    required_rate(from).map(Some)
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    deserialize_time(from).map(Some)
}

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    parse_size(&String::deserialize(from)?).map(Some).map_err(Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: &str = r#"
[[port]]
name = "left"
rate = "1gbit"
routes = ["10.0.0.0/24"]

[[port]]
name = "right"
rate = "10mbit"
"#;

    fn fails(more: &str) -> String {
        Config::parse(&format!("{PORTS}{more}"), "f.toml").expect_err("nonsense").to_string()
    }

    #[test]
    fn the_example_is_a_configuration() {
        let text = include_str!("../../examples/forward.toml");
        let config = Config::parse(text, "forward.toml").unwrap();
        assert_eq!(config.check_reload(&config), Ok(()));
        assert!(config.port.iter().any(|port| port.kickass.is_some()));
        assert!(config.port.iter().any(|port| port.queue.levels().is_some()));
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let config = Config::parse(&format!("{PORTS}kickass = {{}}"), "").unwrap();
        let [left, right] = &config.port[..] else { panic!("two ports") };
        assert_eq!((left.mtu, left.delay, left.buffer()), (1500, Duration::ZERO, 12_500_000));
        assert_eq!((&left.queue, &left.kickass), (&QueueConfig::DropTail, &None));
        let signals = right.kickass.as_ref().unwrap();
        assert_eq!(
            (signals.signals(), signals.rcp()),
            (signal::SignalConfig::default(), RcpConfig::for_codes())
        );
    }

    #[test]
    fn errors_name_line_and_key() {
        assert_eq!(
            fails("delya = \"1ms\""),
            "f.toml:10: `port.1.delya`: unknown key `delya`, did you mean `delay`?"
        );
        assert!(fails("delay = \"1m\"").starts_with("f.toml:10: `port.1.delay`: "));
        for same in ["10.0.0.0/24", "10.0.0.1/24"] {
            let error = fails(&format!("routes = [\"{same}\"]"));
            assert!(error.starts_with("f.toml:10: `port.1.routes`: another port"), "{error}");
        }
        assert!(fails("queue = { kind = \"strict-priority\", levels = { 64 = 1 } }").contains("levels.64`"));
        assert!(fails("kickass = { rcp = { gamma = 2.0 } }").contains("`port.1.kickass.rcp.gamma`"));
        assert!(fails("kickass = { fixed = \"1mbit\", rcp = { alpha = 1.0 } }").contains("not both"));
        assert!(fails("delay = \"1000s\"").contains("gigabyte"));
        assert!(fails("buffer = \"1k\"").contains("`port.1.buffer`"));
        for netns in ["", "netns = \"there\"\n"] {
            let same = fails(&format!("[[port]]\nname = \"left\"\n{netns}rate = \"1bit\""));
            assert!(same.contains("another port is named `left`"), "{same}");
        }
        assert_eq!(
            Config::parse("", "f.toml").expect_err("nothing").to_string(),
            "f.toml: `port`: a forwarder needs at least two ports, write two or more [[port]]"
        );
    }

    #[test]
    fn what_devices_and_privileges_are_made_of_needs_a_restart() {
        let old = Config::parse(PORTS, "").unwrap();
        let change = |from: &str, to: &str| {
            let new = Config::parse(&PORTS.replacen(from, to, 1), "").unwrap();
            old.check_reload(&new)
        };
        assert_eq!(change("10mbit", "20mbit"), Ok(()));
        assert_eq!(change("10.0.0.0/24", "10.0.1.0/24"), Ok(()));
        let restart = |key: &str| Fault::new(key, NEEDS_RESTART);
        assert_eq!(change("\"left\"", "\"links\""), Err(restart("port")));
        assert_eq!(change("rate", "mtu = 1400\nrate"), Err(restart("port.0.mtu")));
        for key in ["user", "group"] {
            let forward = format!("[forward]\n{key} = \"a\"\n[[port]]");
            assert_eq!(change("[[port]]", &forward), Err(restart(&format!("forward.{key}"))));
        }
    }
}
