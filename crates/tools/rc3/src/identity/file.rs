//! A file with a certificate and its key: two PEM blocks, `CERTIFICATE` and `PRIVATE KEY` (RFC 7468).
//!
//! Invariant: only its owner can read the file, from the first byte on. A file that others own or can read is refused.
//! Text with the key is wiped when dropped.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use zeroize::{Zeroize, Zeroizing};

use super::trust;
use crate::{
    error::{Error, ErrorKind, Result},
    system,
    transfer::{
        identity::{self, Identity, SERVER_NAME},
        paths::{directory_of, printable_path},
        ticket::{SECRET_BYTES, Secret},
    },
};

/// Longer than any identity file.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// BLAKE3 context of [`ticket_secret`].
const SECRET_CONTEXT: &str = "rc3 2026 the secret of the tickets of one identity";

/// The identity in the file at `path`, which is made on first use, with its directory.
///
/// # Errors
/// When the file cannot be read or made, is not only this user's, or is no identity.
pub fn open(path: &Path) -> Result<Identity> {
    let failed = |verb: &'static str| {
        move |error| Error::local(format!("{verb} the identity {}", printable_path(path)), error)
    };
    match File::open(path) {
        Ok(file) => return read(path, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("read")(error)),
    }
    let mut made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).map_err(identity::failed)?;
    let key = Zeroizing::new(made.signing_key.serialize_pem());
    made.signing_key.zeroize();
    let text = Zeroizing::new(made.cert.pem() + &key);
    match write(path, &text) {
        // Another process has made it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("make")(error)),
        Ok(()) => {}
    }
    read(path, File::open(path).map_err(failed("read"))?)
}

/// The secret of the tickets of a receiver with this identity: known to anyone who has the key, and the same after a
/// restart.
pub fn ticket_secret(identity: &Identity) -> Secret {
    let mut secret = [0; SECRET_BYTES];
    blake3::Hasher::new_derive_key(SECRET_CONTEXT)
        .update(identity.key().secret_der())
        .finalize_xof()
        .fill(&mut secret);
    Secret(secret)
}

fn read(path: &Path, file: File) -> Result<Identity> {
    trust::expect_private(path, &file)?;
    // Of full size: growing would leave copies of the key behind.
    let mut text = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize));
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(|error| Error::local(format!("read the identity {}", printable_path(path)), error))?;
    let malformed = |_| {
        let message = format!("the file {} is not an identity", printable_path(path));
        Error::new(ErrorKind::Local, message, "name another file; one that does not exist is made")
    };
    let certificate = CertificateDer::from_pem_slice(&text).map_err(malformed)?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(malformed)?;
    Ok(Identity::from_parts(certificate, key))
}

/// Writes a new file with mode 0600, complete or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let parent = directory_of(path);
    system::make_private_directory(parent)?;
    let mut file = tempfile::Builder::new().prefix(".rc3-identity-").tempfile_in(parent)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::*;

    #[test]
    fn an_identity_is_made_once_and_only_for_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/rc3/identity");
        let first = open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let parent = path.parent().unwrap();
        assert_eq!(fs::metadata(parent).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(parent).unwrap().count(), 1, "no temporary file stays");
        let second = open(&path).unwrap();
        assert_eq!(second.fingerprint(), first.fingerprint());
        assert_eq!(ticket_secret(&second).0, ticket_secret(&first).0);
        let other = open(&directory.path().join("other")).unwrap();
        assert_ne!(other.fingerprint(), first.fingerprint());
        assert_ne!(ticket_secret(&other).0, ticket_secret(&first).0);
    }

    #[test]
    fn identities_that_others_can_read_and_other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity");
        open(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let refused = |path: &Path| open(path).map(|_| ()).unwrap_err().to_string();
        assert!(refused(&path).contains("has mode 640"));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let key = text.find("-----BEGIN PRIVATE KEY").unwrap();
        for damaged in ["", "not PEM", &text[..key], &text[key..]] {
            fs::write(&path, damaged).unwrap();
            assert!(refused(&path).ends_with("is not an identity"), "{damaged}");
        }
        assert!(open(directory.path()).is_err());
    }
}
