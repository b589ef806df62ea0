//! Four hosts for Ansible: sshd in network namespaces with a bridge, an inventory, a key.
//! All ends with the test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::common::needs::{self, Absent};
use super::common::{Ended, Place, Running, until};
use super::tools::{find, library_path, path};

pub const HOSTS: [&str; 4] = ["farm1", "farm2", "farm3", "farm4"];

pub struct Farm {
    pub place: Place,
    base: String,
    hosts: Vec<Child>,
}

/// The address of a host, of the block for documentation.
fn address(index: usize) -> String {
    format!("192.0.2.{}", index + 11)
}

impl Farm {
    /// Starts it, and waits until each host answers.
    ///
    /// # Errors
    /// What is missing for it.
    pub fn start() -> Result<Self, Absent> {
        needs::root()?;
        for (program, package) in [
            ("ip", "iproute2"),
            ("ansible-playbook", "ansible-core"),
            ("ssh", "openssh-client"),
            ("ssh-keygen", "openssh-client"),
            ("sshd", "openssh-server"),
        ] {
            find(&[program], package)?;
        }
        let place = Place::new();
        // sshd and ssh refuse keys in a directory that others may write to.
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let mut farm = Self {
            place,
            base: format!("pf{}", std::process::id() % 100_000),
            hosts: Vec::new(),
        };
        farm.network()?;
        farm.keys();
        for index in 0..HOSTS.len() {
            farm.start_host(index);
        }
        farm.inventory();
        for (index, host) in HOSTS.iter().enumerate() {
            until(&format!("sshd of {host}"), || farm.answers(index));
        }
        Ok(farm)
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn namespace(&self, index: usize) -> String {
        format!("{}-{}", self.base, HOSTS[index])
    }

    /// The hosts, and the test's own side, `control`.
    fn network(&self) -> Result<(), Absent> {
        let control = format!("{}-control", self.base);
        let mut steps = vec![
            format!("netns add {control}"),
            format!("-n {control} link add br0 type bridge"),
            format!("-n {control} addr add 192.0.2.1/24 dev br0"),
            format!("-n {control} link set br0 up"),
            format!("-n {control} link set lo up"),
        ];
        for index in 0..HOSTS.len() {
            let host = self.namespace(index);
            steps.extend([
                format!("netns add {host}"),
                format!("-n {control} link add v{index} type veth peer name eth0 netns {host}"),
                format!("-n {control} link set v{index} master br0 up"),
                format!("-n {host} addr add {}/24 dev eth0", address(index)),
                format!("-n {host} link set eth0 up"),
                format!("-n {host} link set lo up"),
            ]);
        }
        for step in steps {
            let output = Command::new("ip")
                .args(step.split(' '))
                .output()
                .expect("ip runs");
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(Absent::refused(&format!("ip {step}"), said.trim()));
            }
        }
        Ok(())
    }

    fn keys(&self) {
        for name in ["id", "host"] {
            let mut command = self.place.command("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f", name]);
            Running::start(command).end().expect(0);
        }
        fs::copy(self.at("id.pub"), self.at("authorized")).expect("a key");
        // sshd has a user of its own, which its package would add.
        let passwd =
            "root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n";
        fs::write(self.at("passwd"), passwd).expect("a file");
        fs::write(
            self.at("shadow"),
            "root:*:19000:0:99999:7:::\nsshd:*:19000::::::\n",
        )
        .expect("a file");
    }

    fn start_host(&mut self, index: usize) {
        let script = "hostname \"$1\"; mount --bind passwd /etc/passwd; mount --bind shadow /etc/shadow; \
                      mount -t tmpfs none /run; mkdir -m 755 /run/sshd; shift; exec \"$@\"";
        let here = self.place.path().display();
        let sshd = find(&["sshd"], "openssh-server").expect("found");
        let mut command = self.place.command("ip");
        command
            .env("LD_LIBRARY_PATH", library_path())
            .args([
                "netns",
                "exec",
                &self.namespace(index),
                "unshare",
                "--uts",
                "--mount",
            ])
            .args(["sh", "-ec", script, "sh", HOSTS[index]])
            .arg(sshd)
            .args(["-D", "-e", "-f", "/dev/null"]);
        let options = [
            format!("HostKey={here}/host"),
            format!("PidFile={here}/sshd{index}.pid"),
            format!("AuthorizedKeysFile={here}/authorized"),
            format!("ListenAddress={}", address(index)),
            "StrictModes=no".to_owned(),
            "PermitRootLogin=yes".to_owned(),
            "UsePAM=no".to_owned(),
            "Subsystem=sftp internal-sftp".to_owned(),
        ];
        for option in options {
            command.args(["-o", &option]);
        }
        let log = fs::File::create(self.at(&format!("sshd{index}.log"))).expect("a file");
        command.stdout(Stdio::null()).stderr(log);
        self.hosts.push(command.spawn().expect("sshd"));
    }

    fn inventory(&self) {
        let here = self.place.path().display();
        let mut text = "[farm]\n".to_owned();
        for (index, host) in HOSTS.iter().enumerate() {
            text.push_str(&format!(
                "{host} ansible_host={} punctual_path={here}/punctual-{host}\n",
                address(index)
            ));
        }
        text.push_str(&format!(
            "[farm:vars]\nansible_user=root\nansible_ssh_private_key_file={here}/id\n\
             ansible_ssh_common_args=-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
             -o LogLevel=ERROR -o ControlPath={here}/c%C -F /dev/null\n\
             ansible_python_interpreter=/usr/bin/python3\nansible_remote_tmp={here}/remote\n"
        ));
        fs::write(self.at("hosts"), text).expect("a file");
        fs::write(self.at("ansible.cfg"), "").expect("a file");
    }

    fn control(&self, program: &str) -> Command {
        let mut command = self.place.command("ip");
        command
            .args(["netns", "exec", &format!("{}-control", self.base), program])
            .env("PATH", path())
            .env("ANSIBLE_HOME", self.at("ansible"))
            .env("ANSIBLE_LOCAL_TEMP", self.at("ansible/tmp"))
            .env("ANSIBLE_NOCOLOR", "1")
            .env("ANSIBLE_CONFIG", self.at("ansible.cfg"));
        command
    }

    fn answers(&self, index: usize) -> bool {
        let mut command = self.control("ssh");
        command
            .args(["-F", "/dev/null", "-i"])
            .arg(self.at("id"))
            .args([
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "UserKnownHostsFile=/dev/null",
            ])
            .args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=5"])
            .arg(format!("root@{}", address(index)))
            .arg("hostname");
        let ended = Running::start(command).end();
        ended.stdout.trim() == HOSTS[index]
    }

    /// Runs the playbook that users copy.
    pub fn play(&self, arguments: &[&str]) -> Ended {
        let playbook = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../integrations/ansible/qualify.yml");
        let mut command = self.control("ansible-playbook");
        command.args(["-i", "hosts"]).arg(playbook).args(arguments);
        Running::start(command).end_within(std::time::Duration::from_secs(240))
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.at("sshd0.log")).unwrap_or_default();
            eprintln!("== sshd0.log\n{log}");
        }
        for host in &mut self.hosts {
            let _ = host.kill();
            let _ = host.wait();
        }
        for _ in 0..50 {
            let left = self.place.processes();
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(super::cluster::kill);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let names = (0..HOSTS.len()).map(|index| self.namespace(index));
        for name in names.chain([format!("{}-control", self.base)]) {
            let _ = Command::new("ip")
                .args(["netns", "del", &name])
                .stderr(Stdio::null())
                .status();
        }
    }
}
