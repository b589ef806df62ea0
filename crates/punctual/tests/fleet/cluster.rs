//! A Slurm of four nodes on this host: every file in one directory, ports and a key of its own.
//! Whatever a test does, all its processes end with it.
#![allow(unsafe_code, reason = "kills processes by their number")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::common::needs::{self, Absent};
use super::common::{Ended, Place, Running, program, until};
use super::tools::{find, library_folder, library_path, path};

pub const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// A cluster at a time: each is ten daemons.
static ALONE: Mutex<()> = Mutex::new(());

pub struct Cluster {
    pub place: Place,
    controller: Option<Child>,
    nodes: Vec<Option<Child>>,
    munged: Option<Child>,
    _alone: MutexGuard<'static, ()>,
}

struct Programs {
    controller: PathBuf,
    node: PathBuf,
    step: PathBuf,
    munged: PathBuf,
}

fn programs() -> Result<Programs, Absent> {
    find(&["sbatch"], "slurm-client")?;
    Ok(Programs {
        controller: find(&["slurmctld-wlm", "slurmctld"], "slurmctld")?,
        node: find(&["slurmd-wlm", "slurmd"], "slurmd")?,
        step: find(&["slurmstepd-wlm", "slurmstepd"], "slurmd")?,
        munged: find(&["munged"], "munge")?,
    })
}

/// Ports that are free now.
fn ports<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    held.map(|listener| listener.local_addr().expect("an address").port())
}

impl Cluster {
    /// Starts it, and waits until its nodes take jobs.
    ///
    /// # Errors
    /// What is missing for it.
    pub fn start() -> Result<Self, Absent> {
        needs::root()?;
        programs()?;
        let plugins = library_folder("slurm-wlm/auth_munge.so")
            .ok_or_else(|| Absent::program("Slurm's plugins (package slurm-wlm-basic-plugins)"))?
            .join("slurm-wlm");
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Place::new();
        let mut cluster = Self {
            place,
            controller: None,
            nodes: NODES.iter().map(|_| None).collect(),
            munged: None,
            _alone: alone,
        };
        cluster.configure(&plugins);
        cluster.start_munged();
        cluster.start_controller();
        for index in 0..NODES.len() {
            cluster.start_node(index);
        }
        cluster.await_idle();
        Ok(cluster)
    }

    /// A path below the place.
    pub fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn configure(&self, plugins: &Path) {
        for folder in ["state", "log", "run", "spool", "munge"] {
            fs::create_dir(self.at(folder)).expect("a folder");
        }
        // munged refuses a socket that others could replace.
        fs::set_permissions(self.at("munge"), fs::Permissions::from_mode(0o755)).expect("a mode");
        let mut key = vec![0; 1024];
        std::io::Read::read_exact(&mut fs::File::open("/dev/urandom").expect("it"), &mut key)
            .expect("a key");
        fs::write(self.at("munge/key"), key).expect("a key");
        fs::set_permissions(self.at("munge/key"), fs::Permissions::from_mode(0o400))
            .expect("a mode");
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let host = host.trim().split('.').next().unwrap_or_default();
        let [control, ports @ ..] = ports::<5>();
        let nodes = NODES.iter().zip(ports).map(|(node, port): (&&str, u16)| {
            format!(
                "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 RealMemory=500\n"
            )
        });
        let here = self.place.path().display();
        // Slurm starts a task again only when the credentials of its first start have expired.
        let text = format!(
            "ClusterName=farm\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={here}/munge/s,cred_expire=10\nCryptoType=crypto/munge\n\
             PluginDir={}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             StateSaveLocation={here}/state\nSlurmdSpoolDir={here}/spool/%n\n\
             SlurmctldPidFile={here}/run/slurmctld.pid\nSlurmdPidFile={here}/run/%n.pid\n\
             SlurmctldLogFile={here}/log/slurmctld.log\nSlurmdLogFile={here}/log/%n.log\n\
             SlurmctldPort={control}\nReturnToService=2\nMpiDefault=none\nSwitchType=switch/none\n\
             JobCompType=jobcomp/none\nAccountingStorageType=accounting_storage/none\n\
             JobAcctGatherType=jobacct_gather/none\nSlurmdParameters=config_overrides\n\
             SlurmdTimeout=5\nKillWait=5\nEpilog={here}/epilog\n{}\
             PartitionName=rt Nodes=n[1-4] Default=YES MaxTime=60 State=UP OverSubscribe=EXCLUSIVE\n",
            plugins.display(),
            nodes.collect::<String>()
        );
        fs::write(self.at("slurm.conf"), text).expect("a file");
        // As on a node where punctual is installed, and there is nothing to restore.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations/slurm");
        fs::copy(root.join("epilog.sh"), self.at("epilog")).expect("a file");
        fs::set_permissions(self.at("epilog"), fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    /// A command with Slurm's programs and settings.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.place.command(program);
        command
            .env("PATH", path())
            .env("LD_LIBRARY_PATH", library_path())
            .env("SLURM_CONF", self.at("slurm.conf"))
            // The epilog's, which its daemon inherits.
            .env("PUNCTUAL", super::common::program())
            .env("PUNCTUAL_STATE", self.at("journal"));
        command
    }

    fn daemon(&self, program: &Path, log: &str) -> Command {
        let mut command = self.command(program);
        let log = fs::File::create(self.at("log").join(log)).expect("a file");
        command.stdout(Stdio::null()).stderr(log);
        command
    }

    fn start_munged(&mut self) {
        let path = |name: &str| self.at("munge").join(name).display().to_string();
        let mut command = self.daemon(&programs().expect("found").munged, "munged.err");
        command.args(["--foreground", "--force"]).args([
            format!("--key-file={}", path("key")),
            format!("--socket={}", path("s")),
            format!("--pid-file={}", path("pid")),
            format!("--log-file={}", path("log")),
            format!("--seed-file={}", path("seed")),
        ]);
        self.munged = Some(command.spawn().expect("munged"));
        until("munged's socket", || self.at("munge/s").exists());
    }

    pub fn start_controller(&mut self) {
        let mut command = self.daemon(&programs().expect("found").controller, "slurmctld.err");
        command.arg("-D");
        self.controller = Some(command.spawn().expect("slurmctld"));
    }

    /// Kills the controller.
    pub fn stop_controller(&mut self) {
        end(&mut self.controller);
    }

    pub fn start_node(&mut self, index: usize) {
        self.start_node_after(index, "--uts", "hostname \"$0\"", Path::new(NODES[index]));
    }

    /// Starts a node's daemon where another file system hides a directory.
    pub fn start_node_without(&mut self, index: usize, hidden: &Path) {
        self.start_node_after(index, "--mount", "mount -t tmpfs none \"$0\"", hidden);
    }

    /// Starts a node's daemon in a namespace of its own, after a command on `subject`.
    fn start_node_after(&mut self, index: usize, namespace: &str, before: &str, subject: &Path) {
        let programs = programs().expect("found");
        let mut command = self.daemon(Path::new("unshare"), &format!("{}.err", NODES[index]));
        command
            .args([namespace, "sh", "-c", &format!("{before} && exec \"$@\"")])
            .arg(subject)
            .arg(&programs.node)
            .args(["-D", "-N", NODES[index], "-d"])
            .arg(&programs.step);
        self.nodes[index] = Some(command.spawn().expect("slurmd"));
    }

    /// Kills the daemon of a node; what it has started runs on.
    pub fn stop_node(&mut self, index: usize) {
        end(&mut self.nodes[index]);
    }

    /// Kills the daemon of a node and all processes of jobs there, as a crash does.
    pub fn crash_node(&mut self, index: usize) {
        self.stop_node(index);
        let wanted = format!("SLURMD_NODENAME={}", NODES[index]);
        for pid in self.place.processes() {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if environ.split(|&b| b == 0).any(|v| v == wanted.as_bytes()) {
                kill(pid);
            }
        }
    }

    /// Processes of jobs on a node whose command line has a word.
    pub fn job_processes(&self, node: &str, word: &str) -> Vec<u32> {
        let wanted = format!("SLURMD_NODENAME={node}");
        let has = |pid: &u32| {
            let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let is_job = read("environ")
                .split(|&b| b == 0)
                .any(|v| v == wanted.as_bytes());
            is_job
                && read("cmdline")
                    .split(|&b| b == 0)
                    .any(|v| v == word.as_bytes())
        };
        self.place.processes().into_iter().filter(has).collect()
    }

    /// Runs a program of Slurm, and returns what it prints.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = self.command(program);
        command.args(arguments);
        let ended = Running::start(command).end();
        format!("{}{}", ended.stdout, ended.stderr)
    }

    fn await_idle(&self) {
        until("four idle nodes", || {
            let said = self.ask("sinfo", &["-h", "-N", "-o", "%N %T"]);
            NODES
                .iter()
                .all(|node| said.lines().any(|line| line == format!("{node} idle")))
        });
    }

    /// Starts `punctual fleet slurm`.
    pub fn begin(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(program());
        command.args(["fleet", "slurm"]).args(arguments);
        Running::start(command)
    }

    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.begin(arguments)
            .end_within(std::time::Duration::from_secs(120))
    }
}

pub fn kill(pid: u32) {
    // SAFETY: kill takes two integers.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}

fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["slurmctld.log", "n1.log", "n2.log"] {
                let text = fs::read_to_string(self.at("log").join(name)).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(15)..];
                eprintln!("== {name}\n{}", last.join("\n"));
            }
        }
        end(&mut self.controller);
        for node in &mut self.nodes {
            end(node);
        }
        end(&mut self.munged);
        // Steps and jobs, which may start others while they are looked for.
        for _ in 0..50 {
            let left = self.place.processes();
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(kill);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
