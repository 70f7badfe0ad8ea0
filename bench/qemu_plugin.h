/* Declares the part of QEMU's plugin interface, version 1, that lines.c uses. Debian 12 has no header of it. */
#ifndef BENCH_QEMU_PLUGIN_H
#define BENCH_QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void instruction_call(unsigned vcpu, void *data);
typedef void access_call(unsigned vcpu, uint32_t info, uint64_t address, void *data);
typedef void translation_call(plugin_id id, struct qemu_plugin_tb *block);
typedef void syscall_call(plugin_id id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                          uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);
typedef void syscall_ret_call(plugin_id id, unsigned vcpu, int64_t number, int64_t result);

enum { NO_REGISTERS = 0, LOADS_AND_STORES = 3 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, translation_call *call);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id id, syscall_call *call);
void qemu_plugin_register_vcpu_syscall_ret_cb(plugin_id id, syscall_ret_call *call);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *at, instruction_call *call, int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *at, access_call *call, int flags, int kinds, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *at);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *at);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *at);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *at);
unsigned qemu_plugin_mem_size_shift(uint32_t info);
bool qemu_plugin_mem_is_store(uint32_t info);

extern int qemu_plugin_version;
int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

#endif
