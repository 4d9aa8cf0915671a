//! The endpoints: rc3 and quinn by the example `interop` of rc3-h3, others as `peers/interop/install.sh` made them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::net::{error::NetError, namespace::Namespace, process::Process};

/// The folders of the runner's containers, in a root that only this process sees, and a process group that ends with it.
/// `$1`: the folder with all of them; the rest: a command.
const ROOM: &str = r#"
files=$1; shift
mount --make-rprivate /
mount -t tmpfs tmpfs "$files/root"
for entry in /*; do
    there=$files/root$entry
    if [ -L "$entry" ]; then cp -P "$entry" "$there"
    elif [ -d "$entry" ]; then mkdir "$there"; mount --rbind "$entry" "$there"; fi
done
for own in www downloads certs logs; do
    mkdir -p "$files/root/$own"
    mount --bind "$files/$own" "$files/root/$own"
done
mount --bind "$files/hosts" "$files/root/etc/hosts"
exec chroot "$files/root" "$@" > "$files/logs/output" 2>&1
"#;
/// What those of others do.
const RUN: &str = include_str!("../../../../../peers/interop/run.sh");

/// An implementation.
#[derive(Debug, Clone)]
pub(super) struct InteropPeer {
    pub(super) name: String,
    /// With its version.
    pub(super) about: String,
    command: Vec<String>,
}

impl InteropPeer {
    /// rc3, quinn, and all that are installed beside this program.
    pub(super) fn all() -> Result<Vec<Self>, NetError> {
        let here = std::env::current_exe()?;
        let endpoint = here.with_file_name("examples/interop");
        if !endpoint.exists() {
            let what = "examples/interop beside this program (cargo build -p rc3-h3 --example interop)";
            return Err(NetError::Missing(vec![what.to_owned()]));
        }
        let endpoint = endpoint.display().to_string();
        let own = |name: &str, about: &str, command: Vec<String>| Self {
            name: name.to_owned(),
            about: about.to_owned(),
            command,
        };
        let mut all = vec![
            own("rc3", "rc3 with itself", vec![endpoint.clone()]),
            own(
                "quinn",
                "quinn 0.11 in the program of rc3, as a control",
                vec![endpoint, "quinn".to_owned()],
            ),
        ];
        let mut installed: Vec<Self> = fs::read_dir(here.with_file_name("interop"))
            .into_iter()
            .flatten()
            .filter_map(|entry| Self::installed(&entry.ok()?.path()))
            .collect();
        installed.sort_by(|a, b| a.name.cmp(&b.name));
        all.append(&mut installed);
        Ok(all)
    }

    fn installed(folder: &Path) -> Option<Self> {
        let about = fs::read_to_string(folder.join("version")).ok()?.trim().to_owned();
        let name = folder.file_name()?.to_str()?.to_owned();
        let words = ["sh", "-c", RUN, "run.sh", &name, folder.to_str()?];
        Some(Self { command: words.map(str::to_owned).into(), about, name })
    }

    /// Whether it has HTTP/3 only.
    pub(super) fn is_http3_only(&self) -> bool {
        self.name == "ngtcp2"
    }

    /// Starts it in a host. Its folders are in `files`.
    pub(super) fn start(
        &self,
        host: &Namespace,
        files: &Path,
        environment: &[(&str, String)],
    ) -> Result<Process, NetError> {
        let mut command: Command = host.command("unshare");
        command
            .args(["--fork", "--pid", "--kill-child", "sh", "-ec", ROOM, "room"])
            .arg(files)
            .args(&self.command);
        command.envs(environment.iter().map(|(name, value)| (*name, value)));
        command.env("SSLKEYLOGFILE", "/logs/keys").env("QLOGDIR", "/logs/qlog");
        Process::start(&self.name, &mut command)
    }
}

/// The folders of an endpoint.
pub(super) fn folders(files: &Path, hosts: &str) -> Result<PathBuf, NetError> {
    for name in ["root", "www", "downloads", "certs", "logs", "logs/qlog"] {
        fs::create_dir_all(files.join(name))?;
    }
    fs::write(files.join("hosts"), hosts)?;
    Ok(files.to_owned())
}
