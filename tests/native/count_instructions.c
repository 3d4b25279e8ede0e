// A plugin of qemu's that prints how many instructions a program has executed. (The names are those of qemu-plugin.h,
// which distributions do not ship.)
#include <stdint.h>
#include <stdio.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
void qemu_plugin_outs(const char* text);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, void*), void* data);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb* block, void (*call)(unsigned, void*), int registers,
                                          void* data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, struct qemu_plugin_tb*));

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
static uint64_t count;

static void executed(unsigned processor, void* instructions) { count += (uintptr_t)instructions; }
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  qemu_plugin_register_vcpu_tb_exec_cb(block, executed, 0, (void*)(uintptr_t)qemu_plugin_tb_n_insns(block));
}
static void ended(qemu_plugin_id_t id, void* data) {
  char text[32];
  snprintf(text, sizeof text, "%llu\n", (unsigned long long)count);
  qemu_plugin_outs(text);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void* machine, int count_of,
                                                               char** arguments) {
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, 0);
  return 0;
}
