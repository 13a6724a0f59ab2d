"""Power and heat of a GPU."""

from __future__ import annotations

from envsnap.collectors._nvml import fact, field, item, named, thousandth
from envsnap.keys import Effect, Key, Kind, Lever, Type

COMPUTE, MEMORY = Effect.COMPUTE, Effect.MEMORY
GPU_SENSOR = 0

FACTS = (
    fact(Key("gpu[].power_limit_watts", Type.NUMBER, Kind.TUNABLE, "Power limit that was asked for.",
             (COMPUTE, MEMORY), 0.2, Lever.ROOT, "nvidia-smi -i GPU -pl WATTS"),
         "nvmlDeviceGetPowerManagementLimit", take=thousandth),
    fact(Key("gpu[].default_power_limit_watts", Type.NUMBER, Kind.IDENTITY, "Power limit that the board starts with.",
             (COMPUTE,), 0.1), "nvmlDeviceGetPowerManagementDefaultLimit", take=thousandth),
    fact(Key("gpu[].enforced_power_limit_watts", Type.NUMBER, Kind.TUNABLE, "Power limit in force: the least of what "
             "was asked for here and out of band.", (COMPUTE, MEMORY), 0.3, Lever.ROOT,
             "Lower than the power limit: something else caps it, such as the BMC or a rack controller."),
         "nvmlDeviceGetEnforcedPowerLimit", take=thousandth),
    fact(Key("gpu[].min_power_limit_watts", Type.NUMBER, Kind.IDENTITY, "Lowest power limit that can be set.",
             (COMPUTE,), 0.02), "nvmlDeviceGetPowerManagementLimitConstraints", take=item(0, thousandth)),
    fact(Key("gpu[].max_power_limit_watts", Type.NUMBER, Kind.IDENTITY, "Highest power limit that can be set.",
             (COMPUTE,), 0.1), "nvmlDeviceGetPowerManagementLimitConstraints", take=item(1, thousandth)),
    fact(Key("gpu[].power_draw_watts", Type.NUMBER, Kind.VOLATILE,
             "Power drawn, averaged over a second on recent boards.",
             (COMPUTE,), 0.1, rel_tol=0.1), "nvmlDeviceGetPowerUsage", take=thousandth),
    fact(Key("gpu[].power_draw_instant_watts", Type.NUMBER, Kind.VOLATILE, "Power drawn at the moment.", (COMPUTE,),
             0.05, rel_tol=0.2), field(186), take=thousandth),
    fact(Key("gpu[].energy_millijoules", Type.INTEGER, Kind.COUNTER, "Energy used since the driver was loaded.",
             (COMPUTE,), 0.05), "nvmlDeviceGetTotalEnergyConsumption"),
    fact(Key("gpu[].power_source", Type.STRING, Kind.IDENTITY, "Where the GPU is powered from: ac, battery or "
             "undersized.", (COMPUTE,), 0.4, advice="undersized: the power supply is too weak or a cable is missing."),
         "nvmlDeviceGetPowerSource", take=named(("ac", "battery", "undersized"))),
    fact(Key("gpu[].temperature_celsius", Type.INTEGER, Kind.VOLATILE, "Temperature of the GPU.", (COMPUTE,), 0.1,
             abs_tol=5), ("nvmlDeviceGetTemperatureV", GPU_SENSOR), ("nvmlDeviceGetTemperature", GPU_SENSOR)),
    fact(Key("gpu[].memory_temperature_celsius", Type.INTEGER, Kind.VOLATILE, "Temperature of the GPU's memory.",
             (MEMORY,), 0.1, abs_tol=5), field(82)),
    fact(Key("gpu[].temperature_margin_celsius", Type.INTEGER, Kind.VOLATILE, "Distance of the temperature from where "
             "clocks go down (T.Limit).", (COMPUTE,), 0.2, abs_tol=5), "nvmlDeviceGetMarginTemperature"),
    *(
        fact(Key(f"gpu[].{name}_temperature_celsius", Type.INTEGER, Kind.IDENTITY, f"Temperature at which {what}.",
                 (COMPUTE,), 0.05), ("nvmlDeviceGetTemperatureThreshold", number))
        for name, number, what in (
            ("shutdown", 0, "the GPU shuts down"),
            ("slowdown", 1, "hardware lowers the clocks"),
            ("max_memory", 2, "the driver lowers clocks for the memory's sake"),
            ("max_gpu", 3, "the driver lowers clocks for the GPU's sake"),
        )
    ),
    fact(Key("gpu[].target_temperature_celsius", Type.INTEGER, Kind.TUNABLE, "Temperature that the driver keeps the "
             "GPU at by lowering clocks.", (COMPUTE,), 0.3, Lever.ROOT), ("nvmlDeviceGetTemperatureThreshold", 5)),
    *(
        fact(Key(f"gpu[].{name}_tlimit_celsius", Type.INTEGER, Kind.IDENTITY, f"Temperature margin at which {what}.",
                 (COMPUTE,), 0.05), field(number))
        for name, number, what in (
            ("shutdown", 193, "the GPU shuts down"),
            ("slowdown", 194, "hardware lowers the clocks"),
            ("max_memory", 195, "the driver lowers clocks for the memory's sake"),
            ("max_gpu", 196, "the driver lowers clocks for the GPU's sake"),
        )
    ),
    fact(Key("gpu[].fan_count", Type.INTEGER, Kind.IDENTITY, "Fans that the board drives itself.", (COMPUTE,), 0.02),
         "nvmlDeviceGetNumFans"),
    fact(Key("gpu[].fan_speed_percent", Type.INTEGER, Kind.VOLATILE, "Speed of the fans that is aimed at.", (COMPUTE,),
             0.05, abs_tol=10), "nvmlDeviceGetFanSpeed"),
)  # fmt: skip
