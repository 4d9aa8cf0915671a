//! What a host needs for the laboratory, and what it has.

use std::{path::Path, process::Command};

use super::{
    error::NetError,
    namespace::{Namespace, remove_left_over},
    scheme::Scheme,
    urgency,
};

/// Something the laboratory uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// What.
    pub name: &'static str,
    /// What lacks without it; `None`: there is no laboratory without it.
    pub without: Option<&'static str>,
    /// Why it is not there; `None` if it is.
    pub missing: Option<String>,
    /// What to do then.
    pub hint: &'static str,
}

/// All requirements, in the order in which they depend on each other.
pub fn requirements(peers: Option<&Path>) -> Vec<Requirement> {
    let root = nix::unistd::geteuid().is_root();
    let ip = found("ip");
    let mut all = vec![
        needed("root", (!root).then(|| "this is another user".to_owned()), "start it with sudo"),
        needed("ip", ip.clone(), "install iproute2"),
        needed("sysctl", found("sysctl"), "install procps"),
    ];
    let able = root && ip.is_none();
    let tun = (!Path::new("/dev/net/tun").exists()).then(|| "there is no /dev/net/tun".to_owned());
    all.push(needed("TUN", tun, "load the module tun"));
    if able {
        all.extend(inside());
    }
    let real_time = (!urgency::has_real_time()).then(|| "chrt cannot give a real-time priority".to_owned());
    all.push(Requirement {
        name: "chrt",
        without: Some("WAN in time while other programs run"),
        missing: real_time,
        hint: "install util-linux, start it as root",
    });
    let peers = peers.map_or_else(|| Some("there is no rc3-peers beside this program".to_owned()), |_| None);
    all.push(Requirement {
        name: "rc3-peers",
        without: Some("QUIC implementations of others"),
        missing: peers,
        hint: "build peers/, see docs/LABORATORY.md",
    });
    all
}

/// What only a namespace shows.
fn inside() -> Vec<Requirement> {
    let namespace = match Namespace::new("check") {
        Ok(namespace) => namespace,
        Err(error) => {
            let why = Some(error.to_string());
            return vec![needed(
                "network namespaces",
                why,
                "use a kernel with CONFIG_NET_NS, outside of a container",
            )];
        }
    };
    let veth = namespace.ip(["link", "add", "card", "type", "veth", "peer", "name", "far"]);
    let rules = namespace.ip(["rule", "add", "iif", "card", "lookup", "100"]);
    let htb = namespace.tc("qdisc add dev card root handle 1: htb default 10");
    let bbr = Scheme::all(None).iter().any(|scheme| scheme.name == "tcp-bbr");
    vec![
        needed("network namespaces", None, ""),
        needed("veth", fault(veth), "load the module veth"),
        needed("policy routing", fault(rules), "use a kernel with CONFIG_IP_MULTIPLE_TABLES"),
        Requirement {
            name: "tc and HTB",
            without: Some("card as fast as the link: card, fig15, fig16"),
            missing: fault(htb),
            hint: "install iproute2, load the module sch_htb",
        },
        Requirement {
            name: "BBR of the kernel",
            without: Some("the scheme tcp-bbr"),
            missing: (!bbr).then(|| "the kernel does not have it".to_owned()),
            hint: "load the module tcp_bbr",
        },
    ]
}

fn needed(name: &'static str, missing: Option<String>, hint: &'static str) -> Requirement {
    Requirement { name, without: None, missing, hint }
}

fn fault(done: Result<String, NetError>) -> Option<String> {
    done.err().map(|error| error.to_string())
}

fn found(tool: &str) -> Option<String> {
    Command::new(tool).arg("-V").output().err().map(|error| error.to_string())
}

/// Removes what laboratories that are no longer running have left.
///
/// # Errors
/// If `ip` fails.
pub fn clean() -> Result<Vec<String>, NetError> {
    remove_left_over()
}

/// Nothing, if the laboratory can run.
///
/// # Errors
/// What is missing.
pub fn require(requirements: &[Requirement]) -> Result<(), NetError> {
    let missing: Vec<String> = requirements
        .iter()
        .filter(|requirement| requirement.without.is_none() && requirement.missing.is_some())
        .map(|requirement| requirement.name.to_owned())
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(NetError::Missing(missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_stops_a_run() {
        let optional = Requirement {
            name: "tc and HTB",
            without: Some("cards"),
            missing: Some("no".to_owned()),
            hint: "install it",
        };
        assert!(require(std::slice::from_ref(&optional)).is_ok());
        let missing = needed("root", Some("this is another user".to_owned()), "sudo");
        let error = require(&[optional, missing, needed("ip", None, "")]).unwrap_err();
        assert_eq!(error.to_string(), "this host lacks root");
    }
}
