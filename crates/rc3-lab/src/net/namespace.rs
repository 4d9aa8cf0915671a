//! Network namespaces, made and removed by name with `ip netns`.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use serde_json::Value;

use super::error::NetError;

/// All names begin so, and go on with the process id of the laboratory.
const PREFIX: &str = "rc3-net-";

/// Namespaces made by this process: several laboratories of one have the same roles.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A network namespace that goes with the value, or that of this process.
#[derive(Debug)]
pub struct Namespace {
    /// Empty: that of this process.
    name: String,
}

impl Namespace {
    /// That of this process.
    pub const HERE: Self = Self { name: String::new() };

    /// Makes one for this role; several may have the same.
    ///
    /// # Errors
    /// If `ip` fails: no root, or no namespaces.
    pub fn new(role: &str) -> Result<Self, NetError> {
        let nth = MADE.fetch_add(1, Relaxed);
        let name = format!("{PREFIX}{}-{role}-{nth}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// The name, as `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` inside.
    ///
    /// # Errors
    /// If it fails.
    pub fn ip(&self, words: &str) -> Result<String, NetError> {
        ip(&format!("-n {} {words}", self.name))
    }

    /// Joins a device of it to a new one of another host by a veth pair. The other gets a name, and each an address with a
    /// prefix length.
    ///
    /// # Errors
    /// If `ip` fails.
    pub fn join(
        &self,
        device: &str,
        address: &str,
        other: (&Self, &str, &str),
        mtu: u16,
    ) -> Result<(), NetError> {
        let (host, far, far_address) = other;
        self.ip(&format!("link add {device} type veth peer name {far} netns {}", host.name))?;
        for (host, device, address) in [(self, device, address), (host, far, far_address)] {
            host.ip(&format!("addr add {address} dev {device}"))?;
            host.ip(&format!("link set {device} mtu {mtu} up"))?;
        }
        Ok(())
    }

    /// What a device inside has counted of all that it was to send, such as `bytes` or `dropped`.
    ///
    /// # Errors
    /// If `ip` fails.
    pub fn sent(&self, device: &str, count: &str) -> Result<u64, NetError> {
        let devices: Value = serde_json::from_str(&self.ip(&format!("-s -j link show dev {device}"))?)?;
        Ok(devices[0]["stats64"]["tx"][count].as_u64().unwrap_or(0))
    }

    /// Runs commands of a shell inside, up to the first that fails.
    ///
    /// # Errors
    /// If one fails.
    pub fn shell(&self, commands: &str) -> Result<String, NetError> {
        call(["netns", "exec", &self.name, "sh", "-ec", commands]).map_err(|error| match error {
            NetError::Process { why, .. } => {
                NetError::Process { what: "commands of a shell".to_owned(), why }
            }
            other => other,
        })
    }

    /// Sets variables of the kernel inside.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn sysctl(&self, settings: &[&str]) -> Result<(), NetError> {
        // The values of some have spaces in them.
        let words = ["netns", "exec", &self.name, "sysctl", "-qw"];
        call(words.into_iter().chain(settings.iter().copied())).map(drop)
    }

    /// A program to start inside.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        if self.name.is_empty() {
            return Command::new(program);
        }
        let mut command = Command::new("ip");
        // ip becomes what it starts, so that its process id is that of the program.
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // What is not there need not be deleted.
            let _ = ip(&format!("netns delete {}", self.name));
        }
    }
}

/// Removes namespaces of laboratories that are no longer running, and returns their names.
///
/// # Errors
/// If `ip` fails.
pub fn remove_left_over() -> Result<Vec<String>, NetError> {
    let mut removed = Vec::new();
    for name in ip("netns list")?.lines().filter_map(|line| line.split_whitespace().next()) {
        if owner(name).is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
            ip(&format!("netns delete {name}"))?;
            removed.push(name.to_owned());
        }
    }
    Ok(removed)
}

/// The process id in a name of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn ip(words: &str) -> Result<String, NetError> {
    call(words.split_whitespace())
}

/// Runs `ip` and returns what it prints.
fn call<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<String, NetError> {
    let words: Vec<&str> = words.into_iter().collect();
    finish(&format!("ip {}", words.join(" ")), Command::new("ip").args(&words))
}

/// Runs a tool to its end, and returns what it prints.
///
/// # Errors
/// What it says, if it fails.
pub fn finish(what: &str, command: &mut Command) -> Result<String, NetError> {
    let failed = |why: String| NetError::Process { what: what.to_owned(), why };
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(text.into_owned());
    }
    let said = [text, String::from_utf8_lossy(&output.stderr)].concat().trim().replace('\n', "; ");
    Err(failed(if said.is_empty() { output.status.to_string() } else { said }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_it_is() {
        assert_eq!(owner("rc3-net-4711-sender"), Some(4711));
        for other in ["rc3-net-4711", "rc3-net-x-sender", "rc3-client-12-a", "vpn"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}
