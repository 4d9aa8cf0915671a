//! Certificate chains, as long as cases need them.

use std::{fs, path::Path};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Names of this length make a certificate longer.
const NAME: usize = 60;

/// Writes `cert.pem` and `priv.key` of a server, and `ca.pem`. Each certificate of the chain has so many more names.
pub(super) fn write(folder: &Path, chain: usize, names: usize) -> Result<(), rcgen::Error> {
    let (mut params, mut key) = (params("root", 0)?, KeyPair::generate()?);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut files = vec![("ca.pem", params.self_signed(&key)?.pem())];
    let mut pem = String::new();
    for nth in 1..=chain {
        let mut next = self::params(&format!("intermediate {nth}"), names)?;
        if nth < chain {
            next.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let next_key = KeyPair::generate()?;
        let signed = next.signed_by(&next_key, &Issuer::new(params, key))?;
        pem.insert_str(0, &signed.pem());
        (params, key) = (next, next_key);
    }
    files.extend([("cert.pem", pem), ("priv.key", key.serialize_pem())]);
    for (name, content) in files {
        fs::write(folder.join(name), content).map_err(|_| rcgen::Error::RemoteKeyError)?;
    }
    Ok(())
}

fn params(name: &str, names: usize) -> Result<CertificateParams, rcgen::Error> {
    let more = (0..names).map(|nth| format!("{nth:0NAME$}.server4"));
    let mut params = CertificateParams::new(
        ["server4", "server"].map(str::to_owned).into_iter().chain(more).collect::<Vec<_>>(),
    )?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
