//! A certificate that a test's processes share through the file system, and TLS settings of either side with it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, id},
    sync::Arc,
};

use rc3_net::{
    ClientConfig, ServerConfig,
    crypto::crypto_provider,
    rustls::{self, pki_types::PrivateKeyDer},
};

use super::common::SERVER_NAME;

const FOLDER: &str = "RC3_TEST_IDENTITY";

/// A folder with certificate and key; removed on drop, also after a panic.
pub(crate) struct Identity(PathBuf);

impl Identity {
    /// Tests run side by side in one process, so each names its own.
    pub(crate) fn new(test: &str) -> Self {
        let folder = env::temp_dir().join(format!("rc3-{test}-{}", id()));
        let certified = rcgen::generate_simple_self_signed([SERVER_NAME.to_string()]).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("cert"), certified.cert.der()).unwrap();
        fs::write(folder.join("key"), certified.signing_key.serialize_der()).unwrap();
        Self(folder)
    }

    /// Has the process find it.
    pub(crate) fn give(&self, command: &mut Command) {
        command.env(FOLDER, &self.0);
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Settings of a client that trusts the given identity.
pub(crate) fn client_config() -> ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(read("cert").into()).unwrap();
    let crypto = rustls::ClientConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    ClientConfig::new(Arc::new(crypto))
}

/// Settings of a server with the given identity.
pub(crate) fn server_config() -> ServerConfig {
    let key = PrivateKeyDer::Pkcs8(read("key").into());
    let crypto = rustls::ServerConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![read("cert").into()], key)
        .unwrap();
    ServerConfig::with_crypto(Arc::new(crypto))
}

fn read(name: &str) -> Vec<u8> {
    fs::read(Path::new(&env::var(FOLDER).unwrap()).join(name)).unwrap()
}
