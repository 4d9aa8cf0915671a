//! `kickass forward` between network namespaces, as a process of this program.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::{act::Job, error::NetError, namespace::Namespace, process::Process};

/// A port, and the device behind it.
#[derive(Debug, Clone, Copy)]
pub struct ForwardedPort<'a> {
    /// Name of the device.
    pub name: &'static str,
    /// Where it is.
    pub host: &'a Namespace,
    /// Its network, as in [`address`].
    pub network: u8,
    /// Networks behind it.
    pub routes: &'a [u8],
    /// Rate of the link to it, and one-way delay.
    pub rate: &'a str,
    /// The delay.
    pub delay: &'a str,
    /// Further keys of its table in TOML.
    pub keys: &'a str,
}

/// A forwarder that runs. It ends with the value.
#[derive(Debug)]
pub struct Forwarder {
    /// The process.
    pub process: Process,
    _folder: TempDir,
}

/// The address of a device in this network.
pub fn address(network: u8) -> [u8; 4] {
    [10, 90, network, 2]
}

fn networks(networks: &[u8]) -> String {
    let quoted: Vec<String> = networks.iter().map(|network| format!("\"10.90.{network}.0/24\"")).collect();
    quoted.join(", ")
}

impl<'a> ForwardedPort<'a> {
    /// A port.
    pub fn new(
        name: &'static str,
        host: &'a Namespace,
        network: u8,
        routes: &'a [u8],
        rate: &'a str,
        delay: &'a str,
        keys: &'a str,
    ) -> Self {
        Self { name, host, network, routes, rate, delay, keys }
    }

    fn toml(&self) -> String {
        let Self { name, host, network, routes, rate, delay, keys, .. } = self;
        format!(
            "[[port]]\nname = \"{name}\"\nnetns = \"{}\"\naddresses = [\"10.90.{network}.2/24\"]\nroutes = [{}]\n\
             rate = \"{rate}\"\ndelay = \"{delay}\"\n{keys}\n",
            host.name(),
            networks(routes)
        )
    }
}

impl Forwarder {
    /// Starts one that reports its totals 20 times per second. Each host reaches the networks behind the other ports.
    pub fn start(ports: &[ForwardedPort<'_>]) -> Result<Self, NetError> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("forward.toml");
        fs::write(&config, toml(ports))?;
        let process = Process::urgent_job("forwarder", &Job::Forward(config))?;
        for port in ports {
            let others = ports.iter().filter(|other| other.network != port.network);
            for network in others.flat_map(|other| other.routes) {
                port.host.ip(&format!("route replace 10.90.{network}.0/24 dev {}", port.name))?;
            }
        }
        Ok(Self { process, _folder: folder })
    }

    /// Its totals since the last call, in order.
    pub fn totals(&self) -> Result<Vec<Value>, NetError> {
        let lines = self.process.lines_so_far();
        Ok(lines.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>()?)
    }
}

fn toml(ports: &[ForwardedPort<'_>]) -> String {
    let ports: String = ports.iter().map(ForwardedPort::toml).collect();
    format!("[forward]\nstatistics = \"50ms\"\n\n{ports}")
}

#[cfg(test)]
mod tests {
    use kickass_tools::forward::config::Config;

    use super::*;

    #[test]
    fn ports_make_a_configuration_that_the_forwarder_takes() {
        let here = Namespace::HERE;
        let a = ForwardedPort::new("a", &here, 1, &[1, 3], "10mbit", "5ms", "");
        let keys = "buffer = \"1500k\"\nqueue = { kind = \"strict-priority\" }";
        let ports = [a, ForwardedPort { name: "b", network: 2, routes: &[2], keys, ..a }];
        // The namespace of the tests has no name, which the forwarder would refuse.
        let text = toml(&ports).replace("netns = \"\"\n", "");
        let config = Config::parse(&text, "forward.toml").unwrap();
        assert_eq!(config.port.len(), 2);
        assert_eq!(config.port[1].name, "b");
        assert_eq!(networks(&[1, 3]), "\"10.90.1.0/24\", \"10.90.3.0/24\"");
    }
}
