# NixOS module:
#
#     services.overdue = {
#       enable = true;
#       settings = { listen = [ "0.0.0.0:8000" ]; base-url = "https://checks.example.org"; };
#     };
{ config, lib, pkgs, ... }:
let
  cfg = config.services.overdue;
  format = pkgs.formats.toml { };
in
{
  options.services.overdue = {
    enable = lib.mkEnableOption "overdue, which notifies people when a scheduled job did not report";
    package = lib.mkOption {
      type = lib.types.package;
      description = "Package of overdue.";
    };
    settings = lib.mkOption {
      type = format.type;
      default = { };
      description = "Settings with the names of the flags of `overdue serve`. Secrets are in files that they name.";
    };
    environmentFile = lib.mkOption {
      type = lib.types.nullOr lib.types.path;
      default = null;
      description = "File with further settings as variables.";
    };
  };

  config = lib.mkIf cfg.enable {
    environment.systemPackages = [ cfg.package ];
    users.users.overdue = { isSystemUser = true; group = "overdue"; home = "/var/lib/overdue"; };
    users.groups.overdue = { };
    systemd.services.overdue = {
      description = "overdue notifies people when a scheduled job did not report";
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-online.target" ];
      after = [ "network-online.target" "time-sync.target" ];
      serviceConfig = {
        Type = "notify";
        ExecStart = "${lib.getExe cfg.package} serve --config ${format.generate "overdue.toml" cfg.settings}";
        ExecReload = "${pkgs.coreutils}/bin/kill -HUP $MAINPID";
        EnvironmentFile = lib.optional (cfg.environmentFile != null) cfg.environmentFile;
        Restart = "on-failure";
        RestartSec = 1;
        TimeoutStopSec = 15;
        WatchdogSec = 180;
        LimitNOFILE = 16384;
        User = "overdue";
        Group = "overdue";
        StateDirectory = "overdue";
        StateDirectoryMode = "0700";
        UMask = "0077";
        NoNewPrivileges = true;
        CapabilityBoundingSet = "";
        PrivateUsers = true;
        ProtectSystem = "strict";
        ProtectHome = true;
        PrivateTmp = true;
        PrivateDevices = true;
        ProtectClock = true;
        ProtectHostname = true;
        ProtectKernelLogs = true;
        ProtectKernelModules = true;
        ProtectKernelTunables = true;
        ProtectControlGroups = true;
        RestrictAddressFamilies = [ "AF_INET" "AF_INET6" "AF_UNIX" ];
        RestrictNamespaces = true;
        RestrictRealtime = true;
        LockPersonality = true;
        MemoryDenyWriteExecute = true;
        SystemCallArchitectures = "native";
        SystemCallFilter = [ "@system-service" "~@privileged @resources" ];
      };
    };
  };
}
