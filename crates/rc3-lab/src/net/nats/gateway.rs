//! A gateway that maps ports when its hosts ask for them (PCP, NAT-PMP): miniupnpd over nft, where that is installed.

use std::{fs, path::Path};

use super::nat::Nat;
use crate::net::{error::NetError, namespace::Namespace, process::Process};

const PROGRAM: &str = "/usr/sbin/miniupnpd";

/// Whether this host has the program.
pub(super) fn is_installed() -> bool {
    Path::new(PROGRAM).exists()
}

/// Starts it on the gateway of the nth network, if that maps ports.
pub(super) fn start(
    nat: Nat,
    gateway: &Namespace,
    nth: usize,
    files: &Path,
) -> Result<Option<Process>, NetError> {
    if nat != Nat::Mapping {
        return Ok(None);
    }
    let chain = |name: &str, hook: &str| {
        format!("chain {name}_first {{ type nat hook {hook}; jump {name}; }}\nchain {name} {{ }}\n")
    };
    let chains = [chain("inwards", "prerouting priority -101"), chain("outwards", "postrouting priority 99")];
    let table = format!("table inet mapping {{\n{}chain through {{ }}\n}}", chains.concat());
    gateway.shell(&format!("nft -f - <<'END'\n{table}\nEND"))?;
    let (config, id) = (files.join(format!("gateway-{nth}")), files.join(format!("gateway-{nth}.pid")));
    let settings = format!(
        "ext_ifname=card\next_ip={}\nlistening_ip=lan\nenable_natpmp=yes\nenable_upnp=no\n\
         upnp_table_name=mapping\nupnp_nat_table_name=mapping\nupnp_forward_chain=through\n\
         upnp_nat_chain=inwards\nupnp_nat_postrouting_chain=outwards\n\
         allow 1024-65535 192.168.0.0/16 1024-65535\ndeny 0-65535 0.0.0.0/0 0-65535\n",
        outside(nth)
    );
    fs::write(&config, settings)?;
    // It says on standard error when it is ready.
    let script = format!("exec {PROGRAM} -d -f '{}' -P '{}' 2>&1", config.display(), id.display());
    let process = Process::start("miniupnpd", gateway.command("sh").args(["-c", &script]))?;
    while !process.line()?.contains("Listening for NAT-PMP/PCP") {}
    Ok(Some(process))
}

/// The public address of the gateway of the nth network: the program maps no ports of a private one. Nothing leaves the
/// namespaces.
pub(super) fn outside(nth: usize) -> String {
    format!("11.93.{nth}.1")
}
