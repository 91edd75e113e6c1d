/* Functions of the engine that see its state. Before each of them the queued calls are recorded and the handles of dead
 * tensors are released.
 *
 * A function that runs without the GIL is not wrapped: drop_flush goes before it. */
#ifndef TORCHLETTE_FLUSH_H
#define TORCHLETTE_FLUSH_H

#include "cpython.h"
#include "sharing.h"
#include "threads.h"
#include "torchlette.h"

int32_t queue_flush(void); /* queue_record under the modes of the calling thread; a status */
int drop_flush(void);      /* queue_flush, until no tensor died by it */

extern int32_t flush_status;

#define TL_FLUSHED(call) \
    ((flush_status = thread_ready()) != TL_OK || (flush_status = queue_flush()) != TL_OK \
            ? flush_status                                                               \
            : sharing_settled(call))
#define tl_from_data(...) TL_FLUSHED(tl_from_data(__VA_ARGS__))
#define tl_from_memory(...) TL_FLUSHED(tl_from_memory(__VA_ARGS__))
#define tl_writes(...) TL_FLUSHED(tl_writes(__VA_ARGS__))
#define tl_numbers(...) TL_FLUSHED(tl_numbers(__VA_ARGS__))
#define tl_meta_of(...) TL_FLUSHED(tl_meta_of(__VA_ARGS__))
#define tl_dispose(...) TL_FLUSHED(tl_dispose(__VA_ARGS__))
#define tl_tidy(...) TL_FLUSHED(tl_tidy(__VA_ARGS__))
#define tl_keep(...) TL_FLUSHED(tl_keep(__VA_ARGS__))
#define tl_requires_grad(...) TL_FLUSHED(tl_requires_grad(__VA_ARGS__))
#define tl_grad(...) TL_FLUSHED(tl_grad(__VA_ARGS__))
#define tl_set_grad(...) TL_FLUSHED(tl_set_grad(__VA_ARGS__))
#define tl_set_data(...) TL_FLUSHED(tl_set_data(__VA_ARGS__))
#define tl_backward(...) TL_FLUSHED(tl_backward(__VA_ARGS__))
#define tl_backward_next(...) TL_FLUSHED(tl_backward_next(__VA_ARGS__))
#define tl_backward_results(...) TL_FLUSHED(tl_backward_results(__VA_ARGS__))
#define tl_hook(...) TL_FLUSHED(tl_hook(__VA_ARGS__))
#define tl_function(...) TL_FLUSHED(tl_function(__VA_ARGS__))
#define tl_next_pack_hook(...) TL_FLUSHED(tl_next_pack_hook(__VA_ARGS__))
#define tl_saved(...) TL_FLUSHED(tl_saved(__VA_ARGS__))
#define tl_attach_history(...) TL_FLUSHED(tl_attach_history(__VA_ARGS__))
#define tl_function_next(...) TL_FLUSHED(tl_function_next(__VA_ARGS__))
#define tl_function_release(...) TL_FLUSHED(tl_function_release(__VA_ARGS__))
#define tl_leads_outside(...) TL_FLUSHED(tl_leads_outside(__VA_ARGS__))
#define tl_close_leaves(...) TL_FLUSHED(tl_close_leaves(__VA_ARGS__))
#define tl_fence(...) TL_FLUSHED(tl_fence(__VA_ARGS__))
#define tl_trace_begin(...) TL_FLUSHED(tl_trace_begin(__VA_ARGS__))
#define tl_export_begin(...) TL_FLUSHED(tl_export_begin(__VA_ARGS__))
#define tl_program_parse(...) TL_FLUSHED(tl_program_parse(__VA_ARGS__))
#define tl_program_open(...) TL_FLUSHED(tl_program_open(__VA_ARGS__))
#define tl_program_constant(...) TL_FLUSHED(tl_program_constant(__VA_ARGS__))
#define tl_program_numbers(...) TL_FLUSHED(tl_program_numbers(__VA_ARGS__))
#define tl_program_run(...) TL_FLUSHED(tl_program_run(__VA_ARGS__))
#define tl_body_begin(...) TL_FLUSHED(tl_body_begin(__VA_ARGS__))
#define tl_loop(...) TL_FLUSHED(tl_loop(__VA_ARGS__))
#define tl_captured_call(...) TL_FLUSHED(tl_captured_call(__VA_ARGS__))
#define tl_capture_tangents(...) TL_FLUSHED(tl_capture_tangents(__VA_ARGS__))
#define tl_function_scope(...) TL_FLUSHED(tl_function_scope(__VA_ARGS__))
#define tl_set_mode(...) TL_FLUSHED(tl_set_mode(__VA_ARGS__))
#define tl_set_option(...) TL_FLUSHED(tl_set_option(__VA_ARGS__))
#define tl_rng(...) TL_FLUSHED(tl_rng(__VA_ARGS__))

#endif
