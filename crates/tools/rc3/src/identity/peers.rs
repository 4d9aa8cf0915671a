//! The peers that this user trusts: two text files, described in docs/TUNNEL.md.
//!
//! `authorized_peers` lists who may connect, one fingerprint per line; `known_peers` lists names, addresses and
//! fingerprints of peers to connect to. Both are only appended to, in one write, so that several processes can.
//! Empty lines and lines that begin with `#` are skipped.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use cap_std::{ambient_authority, fs::OpenOptions};

use super::trust;
use crate::{
    error::{Error, ErrorKind, Result},
    system,
    transfer::{
        paths::{directory_of, printable_path},
        ticket::{Fingerprint, authority, parts, positive},
    },
};

/// Longer than any list of peers; a longer file is refused.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A list that cannot be read or written.
fn unusable(path: &Path) -> impl Fn(io::Error) -> Error + Copy {
    move |error| {
        let hint = "check the file and its permissions";
        Error::local(format!("use {}", printable_path(path)), error).hinted(hint)
    }
}

/// A line, counted from 1, that is not an entry.
fn malformed(path: &Path, line: usize) -> Error {
    let message = format!("line {line} of {} is not an entry", printable_path(path));
    let hint = "correct or remove the line; docs/TUNNEL.md has the format";
    Error::new(ErrorKind::Local, message, hint)
}

/// The identities that may connect.
#[derive(Debug, Clone)]
pub struct AuthorizedPeers {
    path: PathBuf,
}

impl AuthorizedPeers {
    /// The list in this file, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Whether the file lists this identity now.
    ///
    /// # Errors
    /// When the list cannot be used, is not only this user's, or has a malformed line.
    pub fn contains(&self, fingerprint: Fingerprint) -> Result<bool> {
        let text = read(&self.path)?;
        let mut found = false;
        for (line, entry) in entries(&text) {
            let listed = entry.split_whitespace().next().and_then(|word| word.parse::<Fingerprint>().ok());
            let listed = listed.ok_or_else(|| malformed(&self.path, line))?;
            found |= listed == fingerprint;
        }
        Ok(found)
    }

    /// Adds an identity with a comment of one line.
    ///
    /// # Errors
    /// When the list cannot be used, is not only this user's, or has a malformed line.
    pub fn add(&self, fingerprint: Fingerprint, comment: &str) -> Result<()> {
        append(&self.path, &format!("{fingerprint} {comment}"))
    }
}

/// A peer to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPeer {
    /// What the user calls it: one word.
    pub name: String,
    /// Its host name or address, without brackets.
    pub host: String,
    /// Its UDP port.
    pub port: u16,
    /// Its identity.
    pub fingerprint: Fingerprint,
}

/// What a check of [`KnownPeers`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// The file has the peer.
    Known,
    /// The name was unknown.
    New,
    /// The peer had another address.
    Moved,
}

/// The peers that this user has connected to by ticket.
#[derive(Debug, Clone)]
pub struct KnownPeers {
    path: PathBuf,
}

impl KnownPeers {
    /// The list in this file, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The peer of this name; the last of its lines has its address.
    ///
    /// # Errors
    /// When the list cannot be used, is not only this user's, or has a malformed line.
    pub fn find(&self, name: &str) -> Result<Option<KnownPeer>> {
        Ok(self.lookup(name)?.map(|(_, peer)| peer))
    }

    /// Checks that a name has this fingerprint if it has one.
    ///
    /// # Errors
    /// When the list cannot be used, or the name has another fingerprint.
    pub fn check(&self, peer: &KnownPeer) -> Result<Pin> {
        match self.lookup(&peer.name)? {
            None => Ok(Pin::New),
            Some((line, known)) if known.fingerprint != peer.fingerprint => {
                let (name, path) = (&peer.name, printable_path(&self.path));
                let message =
                    format!("the identity of {name} has changed: it is not that of line {line} of {path}");
                let hint = "another host may pretend to be that peer; if its identity is really new, remove that line or \
                            choose a --name";
                Err(Error::new(ErrorKind::Other, message, hint))
            }
            Some((_, known)) if known == *peer => Ok(Pin::Known),
            Some(_) => Ok(Pin::Moved),
        }
    }

    /// Checks as [`Self::check`] does, and adds the peer if its name or address is new.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn pin(&self, peer: &KnownPeer) -> Result<Pin> {
        let pin = self.check(peer)?;
        if pin != Pin::Known {
            let KnownPeer { name, host, port, fingerprint } = peer;
            append(&self.path, &format!("{name} {} {fingerprint}", authority(host, *port)))?;
        }
        Ok(pin)
    }

    fn lookup(&self, name: &str) -> Result<Option<(usize, KnownPeer)>> {
        let text = read(&self.path)?;
        let mut found = None;
        for (line, entry) in entries(&text) {
            let peer = known(entry).ok_or_else(|| malformed(&self.path, line))?;
            if peer.name == name {
                found = Some((line, peer));
            }
        }
        Ok(found)
    }
}

fn known(entry: &str) -> Option<KnownPeer> {
    let mut words = entry.split_whitespace();
    let (name, address, fingerprint) = (words.next()?, words.next()?, words.next()?);
    let [host, port] = parts(address)?[..] else { return None };
    let port = positive(port)?;
    let fingerprint = fingerprint.parse().ok()?;
    words.next().is_none().then(|| KnownPeer {
        name: name.to_owned(),
        host: host.to_owned(),
        port,
        fingerprint,
    })
}

/// The entries with the numbers of their lines.
fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// The file's text; empty if there is no file.
fn read(path: &Path) -> Result<String> {
    let failed = unusable(path);
    trust::expect_own_directory(path)?;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(failed(error)),
    };
    trust::expect_unchanged(path, &file)?;
    let mut text = String::new();
    let bytes = file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    if bytes as u64 == FILE_BYTES_MAX {
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, "more than 1 MiB")));
    }
    Ok(text)
}

/// Adds one line in one write. An unfinished last line stays by itself.
fn append(path: &Path, line: &str) -> Result<()> {
    let failed = unusable(path);
    let text = read(path)?;
    let unfinished = !text.is_empty() && !text.ends_with('\n');
    system::make_private_directory(directory_of(path)).map_err(failed)?;
    let mut options = OpenOptions::new();
    system::create_mode(options.append(true).create(true), 0o600);
    let opened = cap_std::fs::File::open_ambient_with(path, &options, ambient_authority());
    let mut file = opened.map_err(failed)?;
    let start = if unfinished { "\n" } else { "" };
    file.write_all(format!("{start}{line}\n").as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::*;

    fn peer(name: &str, host: &str, fingerprint: u8) -> KnownPeer {
        let fingerprint = Fingerprint([fingerprint; 32]);
        KnownPeer { name: name.to_owned(), host: host.to_owned(), port: 4433, fingerprint }
    }

    #[test]
    fn authorised_identities_are_those_listed_now() {
        let directory = tempfile::tempdir().unwrap();
        let peers = AuthorizedPeers::new(directory.path().join("new/authorized_peers"));
        let (one, two) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        assert!(!peers.contains(one).unwrap());
        peers.add(one, "from 192.0.2.1").unwrap();
        assert_eq!(fs::metadata(&peers.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(peers.contains(one).unwrap() && !peers.contains(two).unwrap());
        // An editor may leave the last line without its end.
        fs::write(&peers.path, format!("# mine\n\n{one}")).unwrap();
        peers.add(two, "").unwrap();
        assert!(peers.contains(one).unwrap() && peers.contains(two).unwrap());
        fs::write(&peers.path, format!("# {one}\n")).unwrap();
        assert!(!peers.contains(one).unwrap());
    }

    #[test]
    fn lists_that_are_damaged_or_writable_by_others_authorise_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let peers = AuthorizedPeers::new(directory.path().join("authorized_peers"));
        let one = Fingerprint([1; 32]);
        peers.add(one, "").unwrap();
        let text = fs::read_to_string(&peers.path).unwrap();
        fs::write(&peers.path, format!("{text}truncated\n")).unwrap();
        assert!(peers.contains(one).unwrap_err().to_string().starts_with("line 2 of "));
        fs::write(&peers.path, &text).unwrap();
        fs::set_permissions(&peers.path, Permissions::from_mode(0o620)).unwrap();
        assert!(peers.contains(one).unwrap_err().to_string().contains("has mode 620"));
        fs::set_permissions(&peers.path, Permissions::from_mode(0o644)).unwrap();
        assert!(peers.contains(one).unwrap());
        fs::write(&peers.path, vec![b'#'; FILE_BYTES_MAX as usize]).unwrap();
        assert!(peers.contains(one).unwrap_err().to_string().contains("more than 1 MiB"));
    }

    #[test]
    fn a_name_keeps_its_identity_and_may_move() {
        let directory = tempfile::tempdir().unwrap();
        let peers = KnownPeers::new(directory.path().join("known_peers"));
        assert_eq!(peers.find("home").unwrap(), None);
        assert_eq!(peers.pin(&peer("home", "192.0.2.1", 1)).unwrap(), Pin::New);
        assert_eq!(peers.pin(&peer("home", "192.0.2.1", 1)).unwrap(), Pin::Known);
        assert_eq!(peers.pin(&peer("home", "2001:db8::1", 1)).unwrap(), Pin::Moved);
        assert_eq!(peers.find("home").unwrap(), Some(peer("home", "2001:db8::1", 1)));
        let changed = peers.pin(&peer("home", "192.0.2.1", 2)).unwrap_err();
        assert!(changed.to_string().contains("has changed: it is not that of line 2"), "{changed}");
        assert_eq!(peers.pin(&peer("work", "192.0.2.1", 2)).unwrap(), Pin::New);
        assert_eq!(peers.find("home").unwrap(), Some(peer("home", "2001:db8::1", 1)));
        fs::write(&peers.path, "home 192.0.2.1:0 x\n").unwrap();
        assert!(peers.find("other").unwrap_err().to_string().starts_with("line 1 of "));
    }
}
